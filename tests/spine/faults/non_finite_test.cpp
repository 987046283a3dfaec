#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>
#include <set>

#include "framework/plain/backend.h"
#include "tests/spine/faults/variants.h"

namespace zerolab::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Two parameters; sample `sample` has `value` at element 40 of the second.
ExactModel spoiled_at(int64_t spoiled, float value) {
  ExactModel model = {.shapes = flat_shapes({30, 90}), .coefficient = ExactModel::multiples_of(12)};
  model.coefficient = [healthy = model.coefficient, spoiled, value](int64_t sample, int parameter,
                                                                    int64_t element) {
    const bool here = sample == spoiled && parameter == 1 && element == 40;
    return here ? static_cast<double>(value) : healthy(sample, parameter, element);
  };
  return model;
}

RunSetup adam_setup(int world_size) {
  RunSetup setup = exact_setup(world_size);
  setup.optimizer = {.weight_decay = 0.1};
  setup.engine.alignment = 16;
  setup.engine.reduce_bucket_size = 64;
  return setup;
}

/// All that a step may change on one rank.
std::vector<float> everything(EngineRank& rank) {
  rank.engine.wait_for_parameters();
  std::vector<float> all = rank.engine.flat_parameters().to_host<float>();
  for (const Tensor& state : rank.engine.optimizer().states()) {
    const std::vector<float> values = state.to_host<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(Faults, Row21_DifferentDataAndClippingGiveOneNorm) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  const ExactModel model = {.shapes = flat_shapes({30, 200, 1}),
                            .coefficient = ExactModel::multiples_of(84)};
  RunSetup alone = adam_setup(1);
  alone.micro_batch = 84;
  alone.engine.gradient_clipping = 0.1;
  const Outcome expected = run(*backend, model.factory(), alone);
  for (const int world_size : {2, 3, 4, 7}) {
    RunSetup base = alone;
    base.world_size = world_size;
    base.micro_batch = 84 / world_size;
    base.debug.poison = true;  // an un-owned slice would make the norm NaN
    for (const RunSetup& setup : stages_of(base)) {
      const Outcome outcome = run(*backend, model.factory(), setup);  // equal on all ranks
      EXPECT_EQ(outcome.norms, expected.norms) << setup.to_string();
      EXPECT_EQ(outcome.weights, expected.weights) << setup.to_string();
    }
  }
}

TEST(Faults, Row22_RanksThatOwnNothingStillJoinEveryCollective) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  RunSetup base = exact_setup(8);
  base.engine.gradient_clipping = 0.1;
  for (const RunSetup& setup : stages_of(base)) {
    std::mutex mutex;
    std::set<int64_t> calls;
    on_engines(*backend, ExactModel{.shapes = flat_shapes({1})}.factory(), setup,
               [&](EngineRank& rank) {
                 rank.accumulate(setup, 0);
                 rank.engine.step({.learning_rate = 0.1});
                 rank.engine.wait_for_parameters();
                 rank.context.communication().synchronize();
                 const std::lock_guard lock(mutex);
                 int64_t sum = 0;
                 for (const auto& [key, entry] : rank.communicator.ledger().entries()) {
                   sum += entry.calls;
                 }
                 calls.insert(sum);
               });
    // Layout, reduction (to each owner, even of padding alone), control, and the gather where there
    // is one.
    const int64_t reductions =
        zero::StagePlan(setup.engine).reduction == zero::Reduction::kReduceToOwner
            ? setup.world_size
            : 1;
    EXPECT_EQ(calls, std::set<int64_t>{2 + reductions + (setup.engine.stage == 0 ? 0 : 1)})
        << setup.to_string();
  }
}

struct Spoiled {
  const char* name;
  const char* kind;
  float value;
};

class NonFinite : public testing::TestWithParam<Spoiled> {};

TEST_P(NonFinite, Row23_AllRanksSkipTheSameStepAndChangeNothing) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  const bool overflows = std::isfinite(GetParam().value);
  for (const int world_size : {1, 2, 3, 4}) {
    if (overflows && world_size == 1) {
      continue;  // nothing to add to
    }
    // The last rank's sample of step 1 alone, or an overflow of the sum over ranks.
    ExactModel model = spoiled_at(2 * world_size - 1, GetParam().value);
    if (overflows) {
      model.coefficient = [world_size, healthy = model.coefficient](int64_t sample, int parameter,
                                                                    int64_t element) {
        const bool here = sample / world_size == 1 && parameter == 1 && element == 40;
        return here ? 3e38 : healthy(sample, parameter, element);
      };
    }
    for (RunSetup setup : stages_of(adam_setup(world_size))) {
      setup.debug.poison = setup.engine.overlap_comm;  // so that sources are traced
      on_engines(*backend, model.factory(), setup, [&](EngineRank& rank) {
        const auto one_step = [&](int64_t step) {
          rank.accumulate(setup, step);
          return rank.engine.step({.learning_rate = 0.1});
        };
        EXPECT_FALSE(one_step(0).skipped.has_value());
        const std::vector<float> before = everything(rank);
        const zero::StepResult result = one_step(1);
        EXPECT_EQ(everything(rank), before) << setup.to_string();
        EXPECT_EQ(rank.engine.updates(), 1);
        ASSERT_TRUE(result.skipped.has_value()) << setup.to_string();
        EXPECT_EQ(result.skipped->parameter, "p1");
        EXPECT_EQ(result.skipped->index, 40);
        EXPECT_EQ(result.skipped->kind, GetParam().kind);
        EXPECT_FALSE(std::isfinite(result.gradient_norm));
        // Where it came from: the last rank's batch; no rank's, where only the sum overflows.
        EXPECT_EQ(result.skipped->source_ranks, setup.debug.poison && !overflows
                                                    ? std::vector<int>{world_size - 1}
                                                    : std::vector<int>());
        // Who owns it is the layout's to say.
        const zero::Layout& layout = rank.engine.layout();
        const int64_t place = layout.ranges()[1].offset + 40;
        for (const zero::Segment& segment : layout.segments(result.skipped->owner_rank)) {
          if (segment.flat_offset <= place && place < segment.flat_offset + segment.numel) {
            EXPECT_EQ(segment.parameter, 1);
            EXPECT_FALSE(one_step(2).skipped.has_value());
            EXPECT_EQ(rank.engine.updates(), 2);
            EXPECT_NE(everything(rank), before);
            return;
          }
        }
        ADD_FAILURE() << "rank " << result.skipped->owner_rank << " does not own it";
      });
    }
  }
}

std::string name_of_case(const testing::TestParamInfo<Spoiled>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Faults, NonFinite,
                         testing::Values(Spoiled{"inf", "inf", kInf},
                                         Spoiled{"minus_inf", "inf", -kInf},
                                         Spoiled{"nan", "NaN", kNan},
                                         Spoiled{"overflow", "inf", 3e38F}),
                         name_of_case);

/// A skipped step leaves no trace: the run continues as if its data had never been seen.
TEST(Faults, Row23_TheRunGoesOnAsIfTheStepHadNotBeen) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  const ExactModel model = spoiled_at(4, kNan);  // step 1 of three ranks
  for (const RunSetup& setup : stages_of(adam_setup(3))) {
    std::vector<std::vector<float>> ends;
    for (const std::vector<int>& steps : {std::vector<int>{0, 1, 2, 3}, {0, 2, 3}}) {
      std::mutex mutex;
      std::vector<float> end;
      on_engines(*backend, model.factory(), setup, [&](EngineRank& rank) {
        for (const int step : steps) {
          rank.accumulate(setup, step);
          rank.engine.step({.learning_rate = 0.1});
        }
        const std::vector<float> all = everything(rank);
        const std::lock_guard lock(mutex);
        if (rank.communicator.rank() == 1) {
          end = all;
        }
      });
      ends.push_back(end);
    }
    EXPECT_EQ(ends[0], ends[1]) << setup.to_string();
  }
}

TEST(Faults, Row24_NanAtEveryStepEndsWithADiagnosis) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  ExactModel model = {.shapes = flat_shapes({30, 90})};
  model.coefficient = [](int64_t, int parameter, int64_t element) {
    return parameter == 1 && element == 40 ? static_cast<double>(kNan) : 1.0;
  };
  for (RunSetup setup : stages_of(adam_setup(3))) {
    setup.engine.max_skipped_steps = 4;
    std::mutex mutex;
    std::vector<int> skips(3);
    std::set<std::string> errors;
    try {
      on_engines(*backend, model.factory(), setup, [&](EngineRank& rank) {
        const std::vector<float> before = everything(rank);
        try {
          for (int step = 0; step < 20; ++step) {
            rank.accumulate(setup, step);
            EXPECT_TRUE(rank.engine.step({.learning_rate = 0.1}).skipped.has_value());
            ++skips[rank.communicator.rank()];
          }
        } catch (const std::exception& error) {
          EXPECT_EQ(everything(rank), before);
          EXPECT_EQ(rank.engine.updates(), 0);
          const std::lock_guard lock(mutex);
          errors.insert(error.what());
          throw;
        }
      });
      FAIL() << setup.to_string();
    } catch (const std::exception& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("5 steps in a row"), std::string::npos) << text;
      EXPECT_NE(text.find("NaN at p1[40], owned by rank"), std::string::npos) << text;
    }
    EXPECT_EQ(skips, std::vector<int>(3, 4));
    EXPECT_EQ(errors.size(), 1U) << setup.to_string();  // every rank comes to it by itself
  }
}

TEST(Faults, Row24_AGoodStepStartsTheCountAgain) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  ExactModel model = {.shapes = flat_shapes({30})};
  model.coefficient = [](int64_t sample, int, int64_t) {
    return sample / 2 % 4 == 3 ? 2.0 : static_cast<double>(kInf);  // every fourth step is good
  };
  for (RunSetup setup : stages_of(exact_setup(2))) {
    setup.engine.max_skipped_steps = 3;
    setup.steps = 12;
    const Outcome outcome = run(*backend, model.factory(), setup);
    EXPECT_EQ(outcome.weights[0], 1.0F - 3 * 2.0F * 0.0625F) << setup.to_string();
  }
}

}  // namespace
}  // namespace zerolab::test

#include <gtest/gtest.h>

#include <fmt/core.h>

#include <functional>

#include "framework/core/error.h"
#include "framework/plain/backend.h"
#include "tests/spine/equivalence/harness.h"

namespace zerolab::test {
namespace {

/// `setup`, which switches to `stages[i]` after step i + 1.
RunSetup switching(RunSetup setup, const std::vector<int>& stages) {
  setup.steps = static_cast<int>(stages.size()) + 1;
  setup.inspect = [stages](RankContext&, Communicator&, zero::Engine& engine, int step) {
    if (step > 0 && step <= static_cast<int>(stages.size())) {
      engine.set_stage(stages[step - 1]);
      ASSERT_EQ(engine.plan().stage, stages[step - 1]);
    }
  };
  return setup;
}

struct SwitchCase {
  int world_size;
  int micro_batches;
  zero::LayoutKind layout;
};

std::string name_of_switch_case(const testing::TestParamInfo<SwitchCase>& info) {
  return fmt::format("N{}_k{}_{}", info.param.world_size, info.param.micro_batches,
                     info.param.layout == zero::LayoutKind::kBucketed ? "bucketed" : "contiguous");
}

class StageSwitch : public testing::TestWithParam<SwitchCase> {};

/// docs/design.md 6: a run DDP → 1 → 2 → 1 → DDP has the bits of one that never switched.
TEST_P(StageSwitch, GoesOnWithTheSameBits) {
  const std::unique_ptr<Backend> backend = fast_backend();
  RunSetup setup;
  setup.world_size = GetParam().world_size;
  setup.engine.layout = GetParam().layout;
  setup.engine.gradient_accumulation_steps = GetParam().micro_batches;
  setup.engine.reduce_each_micro_batch = GetParam().micro_batches > 1;
  setup.engine.gradient_clipping = 0.1;
  setup.engine.reduce_bucket_size = 333;
  setup.steps = 7;
  const Outcome expected = run(*backend, tiny_gpt(true), setup);
  for (const bool overlap : {false, true}) {
    for (const bool contiguous_gradients : {true, false}) {
      for (const bool reduce_scatter : {true, false}) {
        RunSetup switched = setup;
        switched.engine.overlap_comm = overlap;
        switched.engine.contiguous_gradients = contiguous_gradients;
        switched.engine.reduce_scatter = reduce_scatter;
        for (const std::vector<int>& stages :
             {std::vector<int>{1, 2, 1, 0, 0, 2}, std::vector<int>{2, 0, 2, 2, 1, 1}}) {
          EXPECT_EQ(
              difference(run(*backend, tiny_gpt(true), switching(switched, stages)), expected), "")
              << switched.to_string();
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Matrix, StageSwitch,
                         testing::Values(SwitchCase{1, 1, zero::LayoutKind::kBucketed},
                                         SwitchCase{2, 1, zero::LayoutKind::kContiguous},
                                         SwitchCase{3, 3, zero::LayoutKind::kBucketed},
                                         SwitchCase{4, 1, zero::LayoutKind::kBucketed},
                                         SwitchCase{7, 3, zero::LayoutKind::kContiguous}),
                         name_of_switch_case);

TEST(StageSwitch, WithPoisonAndLazyStreams) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  RunSetup setup;
  setup.world_size = 3;
  setup.steps = 5;
  setup.engine.reduce_bucket_size = 333;
  const Outcome expected = run(*backend, tiny_gpt(false), setup);
  for (const zero::LayoutKind layout :
       {zero::LayoutKind::kBucketed, zero::LayoutKind::kContiguous}) {
    RunSetup switched = setup;
    switched.engine.layout = layout;
    switched.engine.overlap_comm = true;
    switched.debug.poison = true;
    switched.streams = StreamMode::kLazy;
    for (switched.lazy_seed = 1; switched.lazy_seed <= 3; ++switched.lazy_seed) {
      EXPECT_EQ(
          difference(run(*backend, tiny_gpt(false), switching(switched, {1, 2, 1, 0})), expected),
          "")
          << switched.to_string();
    }
  }
}

/// What a stage holds is what the same stage holds that was chosen at the start; nothing is left
/// over.
TEST(StageSwitch, TheLedgerFallsAndRises) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  RunSetup setup;
  setup.world_size = 4;
  std::vector<int64_t> held(3);
  for (const int stage : {0, 1, 2}) {
    setup.engine.stage = stage;
    on_engines(*backend, tiny_gpt(true), setup, [&](EngineRank& rank) {
      if (rank.communicator.rank() == 0) {
        held[stage] = rank.context.ledger().snapshot().total;
      }
    });
  }
  EXPECT_LT(held[2], held[1]);
  EXPECT_LT(held[1], held[0]);
  setup.engine.stage = 0;
  on_engines(*backend, tiny_gpt(true), setup, [&](EngineRank& rank) {
    for (const int stage : {1, 2, 0, 2, 1, 0}) {
      rank.accumulate(setup, 0);
      rank.engine.step({.learning_rate = 0.01});
      rank.engine.set_stage(stage);
      if (rank.communicator.rank() == 0) {
        EXPECT_EQ(rank.context.ledger().snapshot().total, held[stage]) << "stage " << stage;
      }
    }
  });
}

/// A change for which memory is short, wherever it runs out, leaves all as it was: what is held,
/// and the bits of the steps after it.
void expect_goes_on_without(const RunSetup& setup, const std::function<void(EngineRank&)>& change) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  const Outcome expected = run(*backend, tiny_gpt(true), setup);
  int failures = 0;
  bool fails = true;
  for (int64_t room = 0; fails; room += 2000) {
    RunSetup limited = setup;
    limited.memory_limit = int64_t{16} << 20;
    Outcome outcome;
    on_engines(*backend, tiny_gpt(true), limited, [&](EngineRank& rank) {
      for (int step = 0; step < setup.steps; ++step) {
        rank.accumulate(setup, step);
        const zero::StepResult result = rank.engine.step({.learning_rate = setup.learning_rate});
        const int64_t held = rank.context.ledger().snapshot().total;
        bool failed = false;
        {
          const int64_t taken = (limited.memory_limit - held - room) / 4;
          const Tensor hog = Tensor::empty(rank.context, Shape{taken}, DType::kFloat32);
          try {
            change(rank);
          } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find("memory"), std::string::npos) << error.what();
            failed = true;
          }
        }
        if (rank.communicator.rank() == 0) {
          outcome.losses.push_back(result.loss);
          outcome.norms.push_back(result.gradient_norm);
          fails = failed;
        }
        if (!failed) {
          break;
        }
        EXPECT_EQ(rank.context.ledger().snapshot().total, held);
      }
      rank.engine.wait_for_parameters();
      if (rank.communicator.rank() == 0) {
        outcome.weights = weights_of(rank.model.module->parameters());
      }
    });
    if (fails) {
      EXPECT_EQ(difference(outcome, expected), "") << "with room for " << room << " bytes";
      ++failures;
    }
  }
  EXPECT_GT(failures, 10);  // several in each part of the change
}

TEST(StageSwitch, ThatFailsLeavesTheOldStage) {
  for (const bool overlap : {false, true}) {
    RunSetup setup;
    setup.world_size = 4;
    setup.steps = 2;
    setup.engine.stage = 2;
    setup.engine.overlap_comm = overlap;
    expect_goes_on_without(setup, [](EngineRank& rank) { rank.engine.set_stage(0); });
  }
}

TEST(StageSwitch, AFailedRefreshLeavesTheParametersWhereTheyWere) {
  for (const int stage : {0, 2}) {
    RunSetup setup;
    setup.world_size = 2;
    setup.steps = 2;
    setup.engine.stage = stage;
    expect_goes_on_without(setup, [stage](EngineRank& rank) {
      Parameter& parameter = *rank.model.module->parameters()[3];
      parameter.set_frozen(true);
      try {
        rank.engine.refresh_parameters();
      } catch (const Error&) {
        EXPECT_EQ(rank.engine.plan().stage, stage);
        parameter.set_frozen(false);
        throw;
      }
    });
  }
}

TEST(StageSwitch, IsRefusedInTheMiddleOfAStep) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  RunSetup setup;
  setup.world_size = 2;
  setup.engine.gradient_accumulation_steps = 2;
  on_engines(*backend, tiny_gpt(true), setup, [&](EngineRank& rank) {
    const auto expect_refused = [&](const std::string& reason) {
      try {
        rank.engine.set_stage(1);
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
      }
    };
    rank.engine.begin_micro_batch();
    expect_refused("in the middle of a step, after 0 of 2 micro-batches");
    rank.engine.backward(rank.model.loss(rank.context, 0, 1));
    rank.engine.end_micro_batch();
    expect_refused("in the middle of a step, after 1 of 2 micro-batches");
    EXPECT_EQ(rank.engine.plan().stage, 0);
    rank.engine.begin_micro_batch();
    rank.engine.backward(rank.model.loss(rank.context, 0, 1));
    rank.engine.end_micro_batch();
    rank.engine.step({.learning_rate = 0.1});
    rank.engine.set_stage(1);
    EXPECT_THROW(rank.engine.set_stage(3), ConfigError);
    EXPECT_EQ(rank.engine.plan().stage, 1);
  });
}

TEST(StageSwitch, RanksThatSwitchDifferentlyAreRefused) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  RunSetup setup;
  setup.world_size = 2;
  setup.engine.stage = 1;
  try {
    on_engines(*backend, tiny_gpt(true), setup,
               [&](EngineRank& rank) { rank.engine.set_stage(2 - rank.communicator.rank()); });
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("on rank 1 differs from rank 0's"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace zerolab::test

#include <gtest/gtest.h>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "framework/plain/backend.h"
#include "tests/spine/equivalence/harness.h"

namespace zerolab::test {
namespace {

/// The settings that decide which additions are made. Every stage, bucket size, overlap and
/// alignment must give the same bits as DDP at the same ones (docs/design.md 8).
struct Matrix {
  int world_size;
  int micro_batches;
  double clip;
  bool tied;
};

std::string name_of(const testing::TestParamInfo<Matrix>& info) {
  return fmt::format("N{}_k{}_{}_{}", info.param.world_size, info.param.micro_batches,
                     info.param.clip > 0 ? "clip" : "noclip", info.param.tied ? "tied" : "untied");
}

std::vector<Matrix> full_matrix() {
  std::vector<Matrix> cases;
  for (const int world_size : {1, 2, 3, 4, 7}) {
    for (const int k : {1, 3}) {
      for (const double clip : {0.0, 0.1}) {
        for (const bool tied : {true, false}) {
          cases.push_back({world_size, k, clip, tied});
        }
      }
    }
  }
  return cases;
}

RunSetup ddp_of(const Matrix& matrix) {
  RunSetup setup;
  setup.world_size = matrix.world_size;
  setup.engine.gradient_accumulation_steps = matrix.micro_batches;
  setup.engine.gradient_clipping = matrix.clip;
  setup.engine.reduce_each_micro_batch = matrix.micro_batches > 1;
  setup.engine.reduce_bucket_size = 1'000'000;
  return setup;
}

/// {DDP, first ZeRO-1, ZeRO-1, ZeRO-2 with all-reduce, ZeRO-2} × both layouts ×
/// contiguous_gradients × bucket {1, awkward, whole} × overlap.
std::vector<RunSetup> variants_of(const RunSetup& ddp) {
  std::vector<RunSetup> setups;
  for (const int stage : {0, 1, 2}) {
    for (const bool reduce_scatter : {true, false}) {
      for (const zero::LayoutKind layout :
           {zero::LayoutKind::kBucketed, zero::LayoutKind::kContiguous}) {
        for (const bool contiguous_gradients : {true, false}) {
          for (const int64_t bucket : {1, 333, 1'000'000}) {
            for (const bool overlap : {false, true}) {
              if (stage == 0 && !reduce_scatter) {
                continue;
              }
              RunSetup setup = ddp;
              setup.engine.stage = stage;
              setup.engine.layout = layout;
              setup.engine.reduce_scatter = reduce_scatter;
              setup.engine.contiguous_gradients = contiguous_gradients;
              setup.engine.reduce_bucket_size = bucket;
              setup.engine.overlap_comm = overlap;
              if (layout == zero::LayoutKind::kContiguous) {
                setup.engine.allgather_bucket_size = std::max<int64_t>(bucket, 500);
              }
              setups.push_back(setup);
            }
          }
        }
      }
    }
  }
  return setups;
}

class Equivalence : public testing::TestWithParam<Matrix> {};

TEST_P(Equivalence, EveryStageHasTheBitsOfDdp) {
  const std::unique_ptr<Backend> backend = fast_backend();
  const ModelFactory model = tiny_gpt(GetParam().tied);
  const RunSetup ddp = ddp_of(GetParam());
  const Outcome expected = run(*backend, model, ddp);
  ASSERT_EQ(expected.losses.size(), 3U);
  ASSERT_LT(expected.losses[0], 4.0);
  ASSERT_NE(expected.losses[0], expected.losses[2]);
  for (const RunSetup& setup : variants_of(ddp)) {
    EXPECT_EQ(difference(run(*backend, model, setup), expected), "") << setup.to_string();
  }
}

TEST_P(Equivalence, OneRankWithTheWholeBatchAgreesWithinRounding) {
  const std::unique_ptr<Backend> backend = fast_backend();
  const ModelFactory model = tiny_gpt(GetParam().tied);
  // Unequal orders of addition: SGD, since Adam turns the rounding of a zero gradient into a whole
  // step.
  RunSetup setup = ddp_of(GetParam());
  setup.optimizer = {.name = "sgd", .momentum = 0.9};
  setup.engine.stage = 2;
  RunSetup alone = setup;
  alone.world_size = 1;
  alone.micro_batch = setup.micro_batch * setup.world_size;
  const Outcome expected = run(*backend, model, alone);
  const Outcome outcome = run(*backend, model, setup);
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(outcome.losses[i], expected.losses[i], 1e-5);
    EXPECT_NEAR(outcome.norms[i], expected.norms[i], 1e-4 * expected.norms[i]);
  }
  for (size_t i = 0; i < expected.weights.size(); ++i) {
    ASSERT_NEAR(outcome.weights[i], expected.weights[i], 1e-5) << "weight " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Matrix, Equivalence, testing::ValuesIn(full_matrix()), name_of);

TEST(Equivalence, WithoutReductionOfEachMicroBatchStagesZeroAndOneAgreeAndStageTwoWithinRounding) {
  const std::unique_ptr<Backend> backend = fast_backend();
  for (const int world_size : {1, 3, 4}) {
    RunSetup setup =
        ddp_of({.world_size = world_size, .micro_batches = 3, .clip = 0.1, .tied = true});
    setup.engine.reduce_each_micro_batch = false;
    setup.optimizer = {.name = "sgd", .momentum = 0.9};
    const Outcome expected = run(*backend, tiny_gpt(true), setup);
    setup.engine.stage = 1;
    EXPECT_EQ(difference(run(*backend, tiny_gpt(true), setup), expected), "");
    setup.engine.stage = 2;
    const Outcome outcome = run(*backend, tiny_gpt(true), setup);
    for (size_t i = 0; i < expected.weights.size(); ++i) {
      ASSERT_NEAR(outcome.weights[i], expected.weights[i], 1e-5);
    }
  }
}

/// Streams that run only what a wait demands, in a random order: a missing event would show
/// (docs/design.md 4).
TEST(Equivalence, LazyStreamsGiveTheSameBits) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  for (const int micro_batches : {1, 3}) {
    const RunSetup ddp =
        ddp_of({.world_size = 3, .micro_batches = micro_batches, .clip = 0.1, .tied = true});
    const Outcome expected = run(*backend, tiny_gpt(true), ddp);
    for (RunSetup setup : variants_of(ddp)) {
      setup.streams = StreamMode::kLazy;
      setup.debug.poison = true;  // freed memory becomes NaN as soon as its stream says so
      for (setup.lazy_seed = 1; setup.lazy_seed <= 3; ++setup.lazy_seed) {
        EXPECT_EQ(difference(run(*backend, tiny_gpt(true), setup), expected), "")
            << setup.to_string();
      }
    }
  }
}

/// Un-owned slices and freed memory are NaN, and nobody reads them (docs/design.md 8).
TEST(Equivalence, PoisonChangesNothing) {
  const std::unique_ptr<Backend> backend = fast_backend();
  for (const int world_size : {1, 4}) {
    for (const int micro_batches : {1, 3}) {
      const RunSetup ddp = ddp_of({world_size, micro_batches, 0.1, true});
      const Outcome expected = run(*backend, tiny_gpt(true), ddp);
      for (RunSetup setup : variants_of(ddp)) {
        setup.debug.poison = true;
        EXPECT_EQ(difference(run(*backend, tiny_gpt(true), setup), expected), "")
            << setup.to_string();
      }
    }
  }
}

/// Sizes that divide by nothing, ranks that own nothing (docs/faults.md 1–3, 5, 9, 10).
TEST(Equivalence, AwkwardSizes) {
  const std::unique_ptr<Backend> backend = fast_backend();
  const std::vector<std::vector<int64_t>> models = {{1, 1}, {4, 5}, {3, 25, 1}, {7, 31, 100, 8}};
  for (const std::vector<int64_t>& sizes : models) {
    for (const int world_size : {2, 3, 5, 8}) {
      for (const int64_t alignment :
           {1, 128}) {  // it decides the blocks of the norm, hence its bits
        RunSetup ddp =
            ddp_of({.world_size = world_size, .micro_batches = 1, .clip = 0.1, .tied = false});
        ddp.micro_batch = 3;
        ddp.engine.alignment = alignment;
        const Outcome expected = run(*backend, tiny_mlp(sizes), ddp);
        for (const RunSetup& setup : variants_of(ddp)) {
          EXPECT_EQ(difference(run(*backend, tiny_mlp(sizes), setup), expected), "")
              << setup.to_string();
        }
      }
    }
  }
}

/// Every update rule works element by element, wherever its spans are cut.
TEST(Equivalence, EveryOptimizerHasTheBitsOfDdp) {
  const std::unique_ptr<Backend> backend = fast_backend();
  for (const std::string& name : optim::optimizer_names()) {
    RunSetup ddp = ddp_of({.world_size = 3, .micro_batches = 1, .clip = 0.1, .tied = true});
    ddp.optimizer = {.name = name, .momentum = 0.9, .weight_decay = 0.1};
    const Outcome expected = run(*backend, tiny_gpt(true), ddp);
    ASSERT_NE(expected.losses[0], expected.losses[2]) << name;
    for (const RunSetup& setup : variants_of(ddp)) {
      EXPECT_EQ(difference(run(*backend, tiny_gpt(true), setup), expected), "")
          << name << " " << setup.to_string();
    }
  }
}

TEST(Equivalence, PaddingIsStillZeroAfterAHundredSteps) {
  const std::unique_ptr<Backend> backend = fast_backend();
  for (const int stage : {0, 1, 2}) {
    RunSetup setup = ddp_of({.world_size = 3, .micro_batches = 1, .clip = 0.1, .tied = false});
    setup.engine.stage = stage;
    setup.engine.reduce_bucket_size = 64;
    setup.steps = 100;
    setup.inspect = [](RankContext&, Communicator&, zero::Engine& engine, int step) {
      if (step != 100) {
        return;
      }
      engine.wait_for_parameters();
      std::vector<float> flat = engine.flat_parameters().to_host<float>();
      for (const zero::ParameterRange& range : engine.layout().ranges()) {
        std::fill_n(flat.begin() + range.offset, range.numel, 0.0F);
      }
      for (const float value : flat) {
        ASSERT_EQ(value, 0.0F);
      }
    };
    run(*backend, tiny_mlp({3, 25, 2}), setup);
  }
}

}  // namespace
}  // namespace zerolab::test

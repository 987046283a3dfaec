#include <gtest/gtest.h>

#include <fmt/core.h>

#include "framework/cuda/backend.h"
#include "tests/cuda/both.h"
#include "tests/equivalence/exact_model.h"
#include "tests/equivalence/harness.h"

namespace zerolab::test {
namespace {

struct Case {
  int world_size;
  int micro_batches;
  DType dtype;
};

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  return fmt::format("N{}_k{}_{}", info.param.world_size, info.param.micro_batches,
                     name_of(info.param.dtype));
}

class CudaEngine : public testing::TestWithParam<Case> {};

/// Ranks that share one device: every stage has the bits of DDP there too.
TEST_P(CudaEngine, EveryStageHasTheBitsOfDdp) {
  const std::unique_ptr<Backend> backend = make_cuda_backend();
  RunSetup ddp;
  ddp.world_size = GetParam().world_size;
  ddp.steps = 2;
  ddp.engine.gradient_accumulation_steps = GetParam().micro_batches;
  ddp.engine.reduce_each_micro_batch = GetParam().micro_batches > 1;
  ddp.engine.gradient_clipping = 0.1;
  ddp.engine.reduce_bucket_size = 600;
  const ModelFactory model = tiny_gpt(true, GetParam().dtype);
  const Outcome expected = run(*backend, model, ddp);
  ASSERT_NE(expected.losses[0], expected.losses[1]);
  uint64_t seed = 0;
  for (const int stage : {0, 1, 2}) {
    for (const bool overlap : {false, true}) {
      for (const zero::LayoutKind layout :
           {zero::LayoutKind::kBucketed, zero::LayoutKind::kContiguous}) {
        RunSetup setup = ddp;
        setup.engine.stage = stage;
        setup.engine.overlap_comm = overlap;
        setup.engine.layout = layout;
        setup.engine.poison = stage == 2;
        set_device_seed(++seed);  // another order of streams, blocks and threads each time
        EXPECT_EQ(difference(run(*backend, model, setup), expected), "") << setup.to_string();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Matrix, CudaEngine,
                         testing::Values(Case{1, 1, DType::kFloat32}, Case{2, 1, DType::kFloat32},
                                         Case{3, 2, DType::kBFloat16}, Case{2, 1, DType::kFloat16}),
                         name_of_case);

/// Sums that are exact in any order: the device's result is the host's.
TEST(CudaEngine, ExactSumsAreTheHosts) {
  const std::unique_ptr<Backend> backend = make_cuda_backend();
  const ExactModel model = {.shapes = flat_shapes({30, 500, 1, 0, 64})};
  for (const int stage : {0, 1, 2}) {
    RunSetup setup = exact_setup(3, 2);
    setup.engine.stage = stage;
    setup.engine.reduce_bucket_size = 100;
    EXPECT_EQ(run(*backend, model.factory(), setup).weights, expected_weights(model, setup))
        << setup.to_string();
  }
}

/// Losses of a tiny GPT on the device follow the plain backend's.
TEST(CudaEngine, LossesAreTheHostsWithinRounding) {
  RunSetup setup;
  setup.world_size = 2;
  setup.engine.stage = 2;
  setup.optimizer = {.name = "sgd", .momentum = 0.9};
  const Outcome host = run(*fast_backend(), tiny_gpt(false), setup);
  const Outcome device = run(*make_cuda_backend(), tiny_gpt(false), setup);
  for (size_t i = 0; i < host.losses.size(); ++i) {
    EXPECT_NEAR(device.losses[i], host.losses[i], 1e-5 * host.losses[i]);
    EXPECT_NEAR(device.norms[i], host.norms[i], 1e-4 * host.norms[i]);
  }
}

TEST(CudaEngine, StageSwitchesKeepTheBits) {
  const std::unique_ptr<Backend> backend = make_cuda_backend();
  RunSetup setup;
  setup.world_size = 2;
  setup.steps = 4;
  const Outcome expected = run(*backend, tiny_gpt(true), setup);
  setup.inspect = [](RankContext&, Communicator&, zero::Engine& engine, int step) {
    engine.set_stage(std::vector<int>{1, 2, 0, 1, 2}[step]);
  };
  EXPECT_EQ(difference(run(*backend, tiny_gpt(true), setup), expected), "");
}

}  // namespace
}  // namespace zerolab::test

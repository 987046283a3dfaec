#include "tests/cuda/engine_matrix.h"
#include "tests/spine/equivalence/exact_model.h"

namespace zerolab::test {
namespace {

class CudaEngine : public testing::TestWithParam<DeviceCase> {};

/// Ranks that share one device: every stage has the bits of DDP there too.
TEST_P(CudaEngine, EveryStageHasTheBitsOfDdp) {
  expect_every_stage_has_the_bits_of_ddp(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Matrix, CudaEngine,
                         testing::Values(DeviceCase{1, 1, DType::kFloat32},
                                         DeviceCase{2, 1, DType::kFloat32},
                                         DeviceCase{3, 2, DType::kBFloat16},
                                         DeviceCase{2, 1, DType::kFloat16}),
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

TEST(CudaEngine, StageSwitchesKeepTheBits) { expect_stage_switches_keep_the_bits(2); }

}  // namespace
}  // namespace zerolab::test

#include "framework/comm/nccl.h"
#include "tests/cuda/engine_matrix.h"

namespace zerolab::test {
namespace {

std::unique_ptr<RankGroup> make_group(const RunSetup& setup) {
  return make_nccl_group(setup.world_size,
                         {.timeout_s = setup.timeout_s, .staging_bytes = 1 << 12});
}

class NcclEngine : public testing::TestWithParam<DeviceCase> {};

/// With a device for each rank every stage has the bits of DDP among ranks that share memory.
TEST_P(NcclEngine, EveryStageHasTheBitsOfLocalDdp) {
  set_num_devices(GetParam().world_size);
  expect_every_stage_has_the_bits_of_ddp(GetParam(), make_group);
}

INSTANTIATE_TEST_SUITE_P(Matrix, NcclEngine,
                         testing::Values(DeviceCase{1, 1, DType::kFloat32},
                                         DeviceCase{2, 1, DType::kFloat32},
                                         DeviceCase{3, 2, DType::kBFloat16},
                                         DeviceCase{4, 1, DType::kFloat16}),
                         name_of_case);

TEST(NcclEngine, StageSwitchesKeepTheBits) {
  set_num_devices(3);
  set_device_seed(1);
  expect_stage_switches_keep_the_bits(3, make_group);
}

}  // namespace
}  // namespace zerolab::test

#include <gtest/gtest.h>

#include <fmt/core.h>

#include "framework/comm/nccl.h"
#include "framework/cuda/backend.h"
#include "tests/cuda/both.h"
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

std::unique_ptr<RankGroup> make_group(const RunSetup& setup) {
  return make_nccl_group(setup.world_size,
                         {.timeout_s = setup.timeout_s, .staging_bytes = 1 << 12});
}

class NcclEngine : public testing::TestWithParam<Case> {};

/// With a device for each rank every stage has the bits of DDP among ranks that share memory.
TEST_P(NcclEngine, EveryStageHasTheBitsOfLocalDdp) {
  RunSetup ddp;
  ddp.world_size = GetParam().world_size;
  ddp.steps = 2;
  ddp.engine.gradient_accumulation_steps = GetParam().micro_batches;
  ddp.engine.reduce_each_micro_batch = GetParam().micro_batches > 1;
  ddp.engine.gradient_clipping = 0.1;
  ddp.engine.reduce_bucket_size = 600;
  const ModelFactory model = tiny_gpt(true, GetParam().dtype);
  set_num_devices(ddp.world_size);
  const std::unique_ptr<Backend> backend = make_cuda_backend();
  const Outcome expected = run(*backend, model, ddp);
  ASSERT_NE(expected.losses[0], expected.losses[1]);
  int seed = 0;
  for (const int stage : {0, 1, 2}) {
    for (const bool overlap : {false, true}) {
      for (const zero::LayoutKind layout :
           {zero::LayoutKind::kBucketed, zero::LayoutKind::kContiguous}) {
        RunSetup setup = ddp;
        setup.engine.stage = stage;
        setup.engine.overlap_comm = overlap;
        setup.engine.layout = layout;
        setup.engine.poison = stage == 2;
        setup.make_group = make_group;
        set_device_seed(++seed);
        EXPECT_EQ(difference(run(*backend, model, setup), expected), "") << setup.to_string();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Matrix, NcclEngine,
                         testing::Values(Case{1, 1, DType::kFloat32}, Case{2, 1, DType::kFloat32},
                                         Case{3, 2, DType::kBFloat16}, Case{4, 1, DType::kFloat16}),
                         name_of_case);

TEST(NcclEngine, StageSwitchesKeepTheBits) {
  RunSetup setup;
  setup.world_size = 3;
  setup.steps = 4;
  set_num_devices(setup.world_size);
  set_device_seed(1);
  const std::unique_ptr<Backend> backend = make_cuda_backend();
  const Outcome expected = run(*backend, tiny_gpt(true), setup);
  setup.make_group = make_group;
  setup.inspect = [](RankContext&, Communicator&, zero::Engine& engine, int step) {
    engine.set_stage(std::vector<int>{1, 2, 0, 1, 2}[step]);
  };
  EXPECT_EQ(difference(run(*backend, tiny_gpt(true), setup), expected), "");
}

}  // namespace
}  // namespace zerolab::test

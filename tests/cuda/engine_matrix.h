#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/cuda/both.h"
#include "tests/spine/equivalence/harness.h"

namespace zerolab::test {

/// One model and number of ranks, to be run under every stage on the device.
struct DeviceCase {
  int world_size;
  int micro_batches;
  DType dtype;
};

inline std::string name_of_case(const testing::TestParamInfo<DeviceCase>& info) {
  return fmt::format("N{}_k{}_{}", info.param.world_size, info.param.micro_batches,
                     name_of(info.param.dtype));
}

/// Every stage, with and without overlap and in both layouts, has the bits of DDP among ranks that
/// share memory. `make_group` joins the ranks of all but that DDP; empty: as there.
inline void expect_every_stage_has_the_bits_of_ddp(
    const DeviceCase& of, const decltype(RunSetup::make_group)& make_group = {}) {
  const std::unique_ptr<Backend> backend = make_cuda_backend();
  RunSetup ddp;
  ddp.world_size = of.world_size;
  ddp.steps = 2;
  ddp.engine.gradient_accumulation_steps = of.micro_batches;
  ddp.engine.reduce_each_micro_batch = of.micro_batches > 1;
  ddp.engine.gradient_clipping = 0.1;
  ddp.engine.reduce_bucket_size = 600;
  const ModelFactory model = tiny_gpt(true, of.dtype);
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
        setup.debug.poison = stage == 2;
        setup.make_group = make_group;
        set_device_seed(++seed);  // another order of streams, blocks and threads each time
        EXPECT_EQ(difference(run(*backend, model, setup), expected), "") << setup.to_string();
      }
    }
  }
}

/// Stage switches between steps keep the bits of DDP among ranks that share memory.
inline void expect_stage_switches_keep_the_bits(
    int world_size, const decltype(RunSetup::make_group)& make_group = {}) {
  const std::unique_ptr<Backend> backend = make_cuda_backend();
  RunSetup setup;
  setup.world_size = world_size;
  setup.steps = 4;
  const Outcome expected = run(*backend, tiny_gpt(true), setup);
  setup.make_group = make_group;
  setup.inspect = [](RankContext&, Communicator&, zero::Engine& engine, int step) {
    engine.set_stage(std::vector<int>{1, 2, 0, 1, 2}[step]);
  };
  EXPECT_EQ(difference(run(*backend, tiny_gpt(true), setup), expected), "");
}

}  // namespace zerolab::test

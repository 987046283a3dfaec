#include "cuda_sim/simulator.h"
#include "tests/comm/failing.h"

namespace zerolab {
namespace {

/// The second gather is ill-fated on a simulated device.
Outcome gather_twice(bool silent, const RanksOptions& options = {}) {
  return run_failing(
      [&](RankContext& context, Communicator& communicator) {
        gather(context, communicator, context.communication());
        communicator.barrier();
        if (context.rank() == 0) {
          cuda_sim::fail_next_collective(silent);
        }
        communicator.barrier();
        gather(context, communicator, context.communication());
      },
      options);
}

TEST(NcclFault, ThatNcclReportsEndsAllRanks) {
  const Outcome outcome = gather_twice(false);
  const std::string reason = "NCCL reports remote error (a simulated fault) in barrier()";
  for (int failed = 0; failed < kRanks; ++failed) {
    if (outcome.thrown == fmt::format("[comm] rank {} failed: {}", failed, reason)) {
      return expect_on_peers(outcome, failed, reason, "barrier()");
    }
  }
  FAIL() << outcome.thrown;
}

TEST(NcclFault, ThatNothingReportsEndsByTheTimeout) {
  const Outcome outcome = gather_twice(true, {.group = {.timeout_s = 0.3}});
  expect_on_every_rank(outcome,
                       "[comm] barrier() did not end within 0.3 s, though all ranks are at it; a "
                       "link that is only slow needs a longer comm.timeout_s");
}

}  // namespace
}  // namespace zerolab

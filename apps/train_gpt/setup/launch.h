#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "apps/train_gpt/config/config.h"
#include "framework/comm/rank_group.h"
#include "framework/tensor/rank_context.h"

namespace zerolab {
class Backend;
}

namespace zerolab::app {

/// Bytes of the host's memory, or the container's limit where that is less.
int64_t total_memory();

/// Decides what `[launch]` leaves open by what the machine has. Throws `ConfigError` that says what
/// is missing for `launch.device`.
void resolve_launch(RunConfig& config);

/// How many of `launch.ranks` ranks share the host, or the device that has most of them.
int64_t ranks_of_a_device(const RunConfig& config);

/// What the context of a run's rank is made with.
RankOptions rank_options(const RunConfig& config, int rank);

/// The backend that a resolved configuration names.
std::unique_ptr<Backend> make_backend(const RunConfig& config);

/// What joins the ranks of a run.
struct GroupPlan {
  std::string_view name;           ///< "local" or "nccl"
  int64_t communicator_bytes = 0;  ///< that a rank's communicator holds in device memory
};
/// NCCL where every rank has a GPU for itself and no link is modelled; else the local communicator.
GroupPlan plan_group(const RunConfig& config);
std::unique_ptr<RankGroup> make_group(const RunConfig& config);

}  // namespace zerolab::app

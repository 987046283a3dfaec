#include "zero/model.h"

#include <algorithm>
#include <string_view>

namespace zerolab::zero {
namespace {

constexpr int64_t kElement = 4;  // bytes of fp32

/// A parameter's name up to the last dot. One op makes the gradients of a module's parameters, so
/// that their buckets are open together.
std::string_view module_of(const LayoutParameter& parameter) {
  const std::string_view name = parameter.name;
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(0, dot);
}

}  // namespace

std::vector<StateBytes> state_bytes(const Layout& layout, const EngineOptions& options,
                                    int states_per_element) {
  const Partitioning partitioned = partitioning_of(options.stage);
  const auto entry = [&](Category category, int64_t bytes_per_element, bool is_partitioned) {
    const double share = is_partitioned ? 1.0 / layout.options().world_size : 1.0;
    const int64_t numel = is_partitioned ? layout.partition_numel() : layout.flat_numel();
    return StateBytes{category,
                      static_cast<double>(layout.num_params() * bytes_per_element) * share,
                      numel * bytes_per_element};
  };
  return {
      entry(Category::kParameters, kElement, false),
      entry(Category::kGradients, kElement, partitioned.gradients),
      entry(Category::kOptimizerState, kElement * states_per_element, partitioned.optimizer_state)};
}

int64_t bucket_buffer_bytes(const Layout& layout, const EngineOptions& options) {
  if (!options.buffered()) {
    return 0;
  }
  int64_t ordinary = 0;
  int64_t held = 0;
  const Bucket* previous = nullptr;
  for (const Bucket& bucket : layout.buckets()) {
    const LayoutParameter& first = layout.parameters()[bucket.parameters.front()];
    if (first.own_bucket) {
      held += bucket.numel;
      continue;
    }
    const bool together =
        previous != nullptr &&
        (options.overlap_comm ||
         module_of(layout.parameters()[previous->parameters.back()]) == module_of(first));
    ordinary = std::max(ordinary, bucket.numel + (together ? previous->numel : 0));
    previous = &bucket;
  }
  return (ordinary + held) * kElement;
}

CommunicationBytes communication_bytes(const Layout& layout, const EngineOptions& options,
                                       int rank) {
  const int world_size = layout.options().world_size;
  const bool gathers = partitioning_of(options.stage).optimizer_state;
  const int64_t reductions = options.buffered() ? options.gradient_accumulation_steps : 1;
  const CollectiveOp op =
      options.uses_reduce_scatter() ? CollectiveOp::kReduceScatter : CollectiveOp::kAllReduce;
  CommunicationBytes result;
  for (const Bucket& bucket : layout.buckets()) {
    result.gradients += reductions * bytes_sent_by(op, bucket.numel, kElement, rank, world_size, 0);
    if (gathers) {
      result.parameters +=
          bytes_sent_by(CollectiveOp::kAllGather, bucket.numel, kElement, rank, world_size, 0);
    }
  }
  const int64_t legs = reductions * (op == CollectiveOp::kAllReduce ? 2 : 1) + (gathers ? 1 : 0);
  result.formula =
      static_cast<double>(legs * layout.num_params() * kElement) * (world_size - 1) / world_size;
  return result;
}

}  // namespace zerolab::zero

#include "zero/cost_model.h"

namespace zerolab::zero {

std::vector<StateBytes> state_bytes(const Layout& layout, const StagePlan& plan,
                                    int states_per_element) {
  const Partitioning partitioned = plan.partitions;
  const auto entry = [&](Category category, int64_t bytes_per_element, bool is_partitioned) {
    const double share = is_partitioned ? 1.0 / layout.options().world_size : 1.0;
    const int64_t numel = is_partitioned ? layout.partition_numel() : layout.flat_numel();
    return StateBytes{category,
                      static_cast<double>(layout.num_params() * bytes_per_element) * share,
                      numel * bytes_per_element};
  };
  const int64_t gradient = size_of(plan.accumulation_dtype);
  constexpr int64_t kFloat = size_of(DType::kFloat32);
  std::vector<StateBytes> bytes = {
      entry(Category::kParameters, size_of(plan.parameter_dtype), false),
      entry(Category::kGradients, gradient, partitioned.gradients),
      entry(Category::kOptimizerState, kFloat * states_per_element, partitioned.optimizer_state)};
  if (!partitioned.gradients && !plan.contiguous_gradients) {
    bytes[1].bytes = layout.num_params() * gradient;  // tensors of their own: no padding
  }
  if (plan.has_master_weights) {
    bytes.push_back(entry(Category::kMasterWeights, kFloat, partitioned.optimizer_state));
  }
  return bytes;
}

CommunicationBytes communication_bytes(const Layout& layout, const StagePlan& plan, int rank) {
  const int world_size = layout.options().world_size;
  const int64_t gradient = size_of(plan.communication_dtype);
  const int64_t parameter = size_of(plan.parameter_dtype);
  const Reduction reduction = plan.reduction;
  const auto sent = [&](CollectiveOp op, int64_t numel, int64_t element, int root) {
    return bytes_sent_by(op, numel, element, rank, world_size, root);
  };
  CommunicationBytes result;
  for (const Bucket& bucket : layout.buckets()) {
    if (reduction == Reduction::kReduceToOwner) {
      for (const Slice& slice : bucket.slices.all()) {
        result.gradients += sent(CollectiveOp::kReduce, slice.numel, gradient, slice.owner);
      }
    } else {
      result.gradients += sent(reduction == Reduction::kAllReduce ? CollectiveOp::kAllReduce
                                                                  : CollectiveOp::kReduceScatter,
                               bucket.numel, gradient, 0);
    }
  }
  const int64_t reductions = plan.reduces_each_micro_batch ? plan.micro_batches : 1;
  result.gradients *= reductions;
  const bool gathers = plan.partitions.optimizer_state;
  if (gathers) {
    for (const Gather& gather : layout.gathers(plan.allgather_bucket_size)) {
      result.parameters +=
          sent(CollectiveOp::kAllGather, gather.part_numel * world_size, parameter, 0);
    }
  }
  const int64_t legs = reductions * (reduction == Reduction::kAllReduce ? 2 : 1);
  result.formula =
      static_cast<double>(layout.num_params() * (legs * gradient + (gathers ? parameter : 0))) *
      (world_size - 1) / world_size;
  return result;
}

}  // namespace zerolab::zero

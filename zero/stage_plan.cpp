#include "zero/stage_plan.h"

#include "framework/core/error.h"

namespace zerolab::zero {
namespace {

/// One line of the table of what cannot be honoured: when, and why.
struct Refusal {
  bool applies;
  std::string_view what;
  std::string_view reason;
};

bool is_written_by_kernels(DType dtype, const StagePlan& plan) {
  return dtype == DType::kFloat32 || dtype == plan.parameter_dtype;
}

void require_possible(const EngineOptions& options, const StagePlan& plan) {
  const bool scales = options.prescale_gradients || options.gradient_predivide_factor != 1.0;
  const Refusal refusals[] = {
      {options.stage < 0 || options.stage > kLastStage, "zero.stage",
       "there are stages 0 (DDP), 1 and 2"},
      {options.gradient_accumulation_steps < 1, "train.gradient_accumulation_steps",
       "a step has at least one micro-batch"},
      {scales && options.reduce_scatter,
       "zero.prescale_gradients or gradient_predivide_factor with reduce_scatter = true",
       "a reduction to the owner divides once, after the sum; set zero.reduce_scatter = false"},
      {options.prescale_gradients && options.gradient_predivide_factor != 1.0,
       "zero.prescale_gradients with gradient_predivide_factor",
       "prescaling divides by N before the sum already; drop one of the two"},
      {!(options.gradient_predivide_factor > 0.0), "zero.gradient_predivide_factor",
       "it divides the gradients: it must be positive"},
      {options.allgather_bucket_size != 0 && options.layout == LayoutKind::kBucketed,
       "zero.allgather_bucket_size with layout = \"bucketed\"",
       "there each bucket is gathered at once; set zero.layout = \"contiguous\" or drop it"},
      {!is_written_by_kernels(plan.accumulation_dtype, plan), "zero.gradient_accumulation_dtype",
       "gradients are kept in fp32 or in the parameters' dtype"},
      {!is_floating(plan.communication_dtype) || plan.communication_dtype == DType::kFloat64,
       "zero.communication_dtype", "buckets are of fp32, bf16 or fp16"},
  };
  for (const Refusal& refusal : refusals) {
    if (refusal.applies) {
      throw ConfigError("zero", fmt::format("{} is refused: {}", refusal.what, refusal.reason));
    }
  }
}

Reduction reduction_of(const EngineOptions& options) {
  if (options.stage == 0 || !options.reduce_scatter) {
    return Reduction::kAllReduce;
  }
  return options.layout == LayoutKind::kBucketed ? Reduction::kReduceScatter
                                                 : Reduction::kReduceToOwner;
}

DType gradient_dtype_of(const StagePlan& plan) {
  // With one micro-batch all stages write alike, so that they have the same bits.
  if (plan.micro_batches == 1 || !plan.reduces_each_micro_batch) {
    return plan.accumulation_dtype;
  }
  return is_written_by_kernels(plan.communication_dtype, plan) ? plan.communication_dtype
                                                               : plan.parameter_dtype;
}

GradientMemory gradient_memory_of(const StagePlan& plan) {
  if (!plan.contiguous_gradients || plan.gradient_dtype != plan.communication_dtype) {
    return GradientMemory::kPacked;
  }
  return plan.reduces_each_micro_batch ? GradientMemory::kBuffer : GradientMemory::kView;
}

}  // namespace

StagePlan::StagePlan(const EngineOptions& options, DType parameters, int world_size)
    : stage(options.stage),
      partitions{.gradients = stage >= 2, .optimizer_state = stage >= 1},
      reduction(reduction_of(options)),
      divisor_before_sum(options.prescale_gradients ? world_size
                                                    : options.gradient_predivide_factor),
      divisor_after_sum(world_size / divisor_before_sum),
      reduces_each_micro_batch(partitions.gradients || options.reduce_each_micro_batch),
      overlap_comm(options.overlap_comm),
      contiguous_gradients(options.contiguous_gradients),
      parameter_dtype(parameters),
      accumulation_dtype(options.gradient_accumulation_dtype.value_or(
          options.gradient_accumulation_steps == 1 ? parameters : DType::kFloat32)),
      communication_dtype(options.communication_dtype.value_or(
          reduces_each_micro_batch ? parameters : accumulation_dtype)),
      has_master_weights(size_of(parameters) == 2),
      alignment(options.alignment),
      allgather_bucket_size(options.allgather_bucket_size),
      micro_batches(options.gradient_accumulation_steps) {
  gradient_dtype = gradient_dtype_of(*this);
  gradient_memory = gradient_memory_of(*this);
  require_possible(options, *this);
}

}  // namespace zerolab::zero

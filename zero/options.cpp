#include "zero/options.h"

#include "framework/core/error.h"
#include "framework/core/hash.h"

namespace zerolab::zero {
namespace {

/// One line of the table of what cannot be honoured: when, and why.
struct Refusal {
  bool applies;
  std::string_view what;
  std::string_view reason;
};

bool is_written_by_kernels(DType dtype, DType parameter_dtype) {
  return dtype == DType::kFloat32 || dtype == parameter_dtype;
}

}  // namespace

void EngineOptions::check() const {
  const bool scales = prescale_gradients || gradient_predivide_factor != 1.0;
  const Refusal refusals[] = {
      {stage < 0 || stage > 2, "zero.stage", "there are stages 0 (DDP), 1 and 2"},
      {gradient_accumulation_steps < 1, "train.gradient_accumulation_steps",
       "a step has at least one micro-batch"},
      {scales && reduce_scatter,
       "zero.prescale_gradients or gradient_predivide_factor with reduce_scatter = true",
       "a reduction to the owner divides once, after the sum; set zero.reduce_scatter = false"},
      {prescale_gradients && gradient_predivide_factor != 1.0,
       "zero.prescale_gradients with gradient_predivide_factor",
       "prescaling divides by N before the sum already; drop one of the two"},
      {!(gradient_predivide_factor > 0.0), "zero.gradient_predivide_factor",
       "it divides the gradients: it must be positive"},
      {allgather_bucket_size != 0 && layout == LayoutKind::kBucketed,
       "zero.allgather_bucket_size with layout = \"bucketed\"",
       "there each bucket is gathered at once; set zero.layout = \"contiguous\" or drop it"},
      {!is_written_by_kernels(accumulation_type(), parameter_dtype),
       "zero.gradient_accumulation_dtype",
       "gradients are kept in fp32 or in the parameters' dtype"},
      {!is_floating(communication_type()) || communication_type() == DType::kFloat64,
       "zero.communication_dtype", "buckets are of fp32, bf16 or fp16"},
  };
  for (const Refusal& refusal : refusals) {
    if (refusal.applies) {
      throw ConfigError("zero", fmt::format("{} is refused: {}", refusal.what, refusal.reason));
    }
  }
}

uint64_t EngineOptions::hash() const {
  return hash_of(fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", stage,
      static_cast<int>(layout), reduce_scatter, reduce_bucket_size, allgather_bucket_size,
      contiguous_gradients, overlap_comm, prescale_gradients, gradient_predivide_factor,
      name_of(communication_type()), name_of(accumulation_type()), reduce_each_micro_batch,
      gradient_accumulation_steps, gradient_clipping, max_skipped_steps, loss_scale.dynamic,
      loss_scale.initial, loss_scale.window, loss_scale.hysteresis, loss_scale.minimum, alignment,
      hash_every, configuration_hash, name_of(parameter_dtype)));
}

Reduction EngineOptions::reduction() const {
  if (!partitioning_of(stage).optimizer_state || !reduce_scatter) {
    return Reduction::kAllReduce;
  }
  return layout == LayoutKind::kBucketed ? Reduction::kReduceScatter : Reduction::kReduceToOwner;
}

GradientMemory EngineOptions::gradient_memory() const {
  if (!contiguous_gradients || gradient_type() != communication_type()) {
    return GradientMemory::kPacked;
  }
  return reduces_each_micro_batch() ? GradientMemory::kBuffer : GradientMemory::kView;
}

DType EngineOptions::gradient_type() const {
  // With one micro-batch all stages write alike, so that they have the same bits.
  if (gradient_accumulation_steps == 1 || !reduces_each_micro_batch()) {
    return accumulation_type();
  }
  return is_written_by_kernels(communication_type(), parameter_dtype) ? communication_type()
                                                                      : parameter_dtype;
}

DType EngineOptions::accumulation_type() const {
  return gradient_accumulation_dtype.value_or(gradient_accumulation_steps == 1 ? parameter_dtype
                                                                               : DType::kFloat32);
}

DType EngineOptions::communication_type() const {
  return communication_dtype.value_or(reduces_each_micro_batch() ? parameter_dtype
                                                                 : accumulation_type());
}

}  // namespace zerolab::zero

#pragma once

#include <unordered_map>
#include <vector>

#include "framework/autograd/parameter.h"
#include "zero/gradient_reducer.h"
#include "zero/layout.h"
#include "zero/options.h"

namespace zerolab::zero {

/// Gives every parameter gradient its place in a bucket, knows when a bucket is complete, and hands
/// complete buckets to the reducer, always in bucket order, so that all ranks call the same
/// collectives in the same order.
///
/// Stages 0 and 1: buckets are views of the flat gradient buffer, filled over all micro-batches and
/// reduced in the last. Stage 2 (and `reduce_each_micro_batch`): a bucket's buffer is allocated at
/// its first gradient, reduced in the same micro-batch and freed. Where kernels cannot write what
/// is reduced (`GradientMemory::kPacked`), gradients have tensors of their own, and a bucket's
/// buffer is allocated and filled when it is complete. At most two ordinary buffers live: a third
/// waits for the oldest reduction. A bucket whose gradient is complete only at the end (a tied
/// parameter's) is not counted among them.
class GradientBuckets final : public GradientSink {
 public:
  /// Attaches itself to the parameters, which are in the layout's order. All outlive it.
  GradientBuckets(RankContext& context, const Layout& layout, const EngineOptions& options,
                  const std::vector<Parameter*>& parameters, const GradientHome& home,
                  GradientReducer& reducer);
  /// Detaches itself from the parameters.
  ~GradientBuckets() override;

  void begin_micro_batch(int index, int count);
  /// Gradients that complete in the next backward are final for this micro-batch.
  void begin_backward(bool final_one) { final_backward_ = final_one; }
  /// Parameters that no backward reached get a zero gradient; all buckets that are due are reduced.
  void end_micro_batch();

  autograd::Destination open(Parameter& parameter) override;
  void ready(Parameter& parameter) override;

  /// Buffers that had to be allocated beyond the two, and the parameter that caused the last one
  /// (-1: none).
  int excess_buffers() const { return excess_buffers_; }
  int excess_parameter() const { return excess_parameter_; }

 private:
  static constexpr int kOrdinaryBuffers = 2;  // one being filled, one being reduced
  struct State {
    Tensor memory;       ///< the whole bucket; undefined while a buffer is not allocated
    int incomplete = 0;  ///< parameters whose gradient is still to come in this micro-batch
  };
  bool reduces_now() const { return options_.reduces_each_micro_batch() || last_micro_batch_; }
  bool is_ordinary(int bucket) const;
  Tensor memory_of(int parameter);
  void complete(int parameter);
  void allocate(int bucket, int parameter);
  void pack(int bucket);
  void zero_padding(int bucket);

  RankContext& context_;
  const Layout& layout_;
  const EngineOptions& options_;
  const GradientMemory kind_;
  const std::vector<Parameter*>& parameters_;
  const GradientHome& home_;
  GradientReducer& reducer_;
  std::unordered_map<const Parameter*, int> index_of_;
  std::vector<State> buckets_;
  std::vector<Tensor> sources_;    ///< kPacked: each parameter's gradient of this micro-batch
  std::vector<char> contributed_;  ///< whether the parameter's memory holds a gradient to add to
  std::vector<char> completed_;    ///< in this micro-batch
  int micro_batch_ = 0;
  bool last_micro_batch_ = false;
  bool final_backward_ = false;
  int next_bucket_ = 0;   ///< the next to reduce
  int open_buffers_ = 0;  ///< ordinary, allocated, not yet handed to the reducer
  int excess_buffers_ = 0;
  int excess_parameter_ = -1;
};

}  // namespace zerolab::zero

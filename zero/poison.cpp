#include "zero/poison.h"

#include <limits>

#include "framework/tensor/backend.h"

namespace zerolab::zero {
namespace {

void fill_with_nan(RankContext& context, const Tensor& tensor) {
  context.backend().fill(context.compute(), tensor, std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

void poison_gradients(RankContext& context, const GradientStorage& gradients,
                      const std::vector<Segment>& kept) {
  for (const Segment& segment : kept) {
    fill_with_nan(context, gradients.at(segment));
  }
}

void poison_stale_parameters(RankContext& context, const Layout& layout, const Tensor& parameters) {
  for (const Bucket& bucket : layout.buckets()) {
    for (const Slice& slice : bucket.slices.all()) {
      if (slice.owner != context.rank()) {
        fill_with_nan(context, parameters.range(bucket.offset + slice.bucket_offset, slice.numel));
      }
    }
  }
}

}  // namespace zerolab::zero

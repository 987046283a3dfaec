#include "framework/ops/rearrange.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "framework/autograd/node.h"
#include "framework/kernels/strided_copy.h"
#include "framework/ops/check.h"
#include "framework/tensor/backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab::ops {
namespace {

constexpr int kMaxRank = Shape::kMaxRank;
using Extents = std::array<int64_t, kMaxRank>;

/// The axis from the front. Throws unless x has it.
int axis_of(std::string_view op, const Tensor& x, int axis) {
  const int rank = x.shape().rank();
  require(axis >= -rank && axis < rank, op, "no such axis; got {} of a tensor {}", axis,
          x.shape().to_string());
  return axis < 0 ? axis + rank : axis;
}

/// With extents of 1 in front, so that all ranks are walked alike.
Extents extents_of(const Shape& shape) {
  Extents extents;
  extents.fill(1);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    extents[kMaxRank - shape.rank() + axis] = shape[axis];
  }
  return extents;
}

Shape shape_of(const Extents& extents, int rank) {
  switch (rank) {
    case 1:
      return {extents[3]};
    case 2:
      return {extents[2], extents[3]};
    case 3:
      return {extents[1], extents[2], extents[3]};
    default:
      return {extents[0], extents[1], extents[2], extents[3]};
  }
}

/// Through a whole contiguous tensor.
StridedCopy::Walk walk_through(const Extents& extents) {
  StridedCopy::Walk walk;
  int64_t stride = 1;
  for (int axis = kMaxRank - 1; axis >= 0; --axis) {
    walk.strides[axis] = stride;
    stride *= extents[axis];
  }
  return walk;
}

/// One part of a larger tensor, from `begin` along `axis`, and the part alone; read from the
/// former.
StridedCopy part_of(const Extents& whole, const Extents& part, int axis, int64_t begin) {
  StridedCopy copy;
  std::ranges::copy(part, copy.extents);
  copy.source = walk_through(whole);
  copy.source.offset = begin * copy.source.strides[axis];
  copy.out = walk_through(part);
  return copy;
}

void launch(const Tensor& source, const StridedCopy& copy, const Tensor& out, bool accumulate) {
  RankContext& context = source.context();
  context.backend().copy_strided(context.compute(), source, copy, out, accumulate);
}

}  // namespace

Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t length) {
  require_float("slice", "x", x);
  const int rank = x.shape().rank();
  const int at = axis_of("slice", x, axis) + kMaxRank - rank;
  const Extents whole = extents_of(x.shape());
  require(begin >= 0 && length >= 0 && begin + length <= whole[at], "slice",
          "outside the tensor; got [{}, {}) along axis {}, expected within {}", begin,
          begin + length, axis, x.shape().to_string());
  Extents part = whole;
  part[at] = length;
  const StridedCopy copy = part_of(whole, part, at, begin);
  RankContext& context = autograd::begin_op("slice", {x});
  const Tensor out = Tensor::empty(context, shape_of(part, rank), x.dtype());
  launch(x, copy, out, false);
  return autograd::record("slice", out, {x},
                          [copy](const Tensor& dy, autograd::Gradients& gradients) {
                            const autograd::Destination dx = gradients.destination(0);
                            if (!dx.accumulate) {
                              dy.context().backend().fill(dy.context().compute(), dx.tensor, 0.0);
                            }
                            launch(dy, copy.reversed(), dx.tensor, dx.accumulate);
                          });
}

Tensor concatenate(const Tensor& a, const Tensor& b, int axis) {
  require_float("concatenate", "a", a);
  require_dtype("concatenate", "b", b, a.dtype());
  const int rank = a.shape().rank();
  const int at = axis_of("concatenate", a, axis) + kMaxRank - rank;
  const Extents of_a = extents_of(a.shape());
  const Extents of_b = extents_of(b.shape());
  Extents fitting = of_b;
  fitting[at] = of_a[at];
  require(b.shape().rank() == rank && fitting == of_a, "concatenate",
          "a and b differ beside axis {}; got {} and {}", axis, a.shape().to_string(),
          b.shape().to_string());
  Extents whole = of_a;
  whole[at] += of_b[at];
  const std::array<StridedCopy, 2> parts = {part_of(whole, of_a, at, 0),
                                            part_of(whole, of_b, at, of_a[at])};
  RankContext& context = autograd::begin_op("concatenate", {a, b});
  const Tensor out = Tensor::empty(context, shape_of(whole, rank), a.dtype());
  launch(a, parts[0].reversed(), out, false);
  launch(b, parts[1].reversed(), out, false);
  return autograd::record("concatenate", out, {a, b},
                          [parts](const Tensor& dy, autograd::Gradients& gradients) {
                            for (int input = 0; input < 2; ++input) {
                              if (gradients.needed(input)) {
                                const autograd::Destination d = gradients.destination(input);
                                launch(dy, parts[input], d.tensor, d.accumulate);
                              }
                            }
                          });
}

Tensor transpose(const Tensor& x, int axis, int other_axis) {
  require_float("transpose", "x", x);
  const int rank = x.shape().rank();
  const int first = axis_of("transpose", x, axis) + kMaxRank - rank;
  const int second = axis_of("transpose", x, other_axis) + kMaxRank - rank;
  StridedCopy copy;
  copy.source = walk_through(extents_of(x.shape()));
  std::swap(copy.source.strides[first], copy.source.strides[second]);
  Extents extents = extents_of(x.shape());
  std::swap(extents[first], extents[second]);
  std::ranges::copy(extents, copy.extents);
  copy.out = walk_through(extents);
  RankContext& context = autograd::begin_op("transpose", {x});
  const Tensor out = Tensor::empty(context, shape_of(extents, rank), x.dtype());
  launch(x, copy, out, false);
  return autograd::record("transpose", out, {x},
                          [copy](const Tensor& dy, autograd::Gradients& gradients) {
                            const autograd::Destination dx = gradients.destination(0);
                            launch(dy, copy.reversed(), dx.tensor, dx.accumulate);
                          });
}

}  // namespace zerolab::ops

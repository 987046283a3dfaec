#include <algorithm>

#include "framework/core/rank_context.h"
#include "framework/onednn/kernel.h"
#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/vector.h"

namespace zerolab {

using onednn::floats;
using onednn::Vector;

void OnednnBackend::launch_product(Stream& stream, const LinearCall& call, const Tensor& a,
                                   const Tensor& b, const Tensor& bias, const Tensor& out) {
  const onednn::MatrixProduct& product = products_.find(call);
  RankContext& context = out.context();
  const CategoryScope scope(context, Category::kWorkspace);
  const Tensor scratchpad = Tensor::empty(
      context, Shape{product.scratchpad_bytes() / size_of(DType::kFloat32)}, DType::kFloat32);
  static_cast<CpuStream&>(stream).launch(
      [&product, a = floats(a), b = floats(b), bias = bias.defined() ? floats(bias) : nullptr,
       out = floats(out),
       scratchpad = floats(scratchpad)] { product.execute(a, b, bias, out, scratchpad); });
}

void OnednnBackend::linear_forward(Stream& stream, const Tensor& x, const Tensor& weight,
                                   WeightLayout layout, const Tensor& bias, const Tensor& out) {
  const LinearCall call = {.pass = LinearCall::Pass::kForward,
                           .rows = x.shape().rows(),
                           .in = x.shape().cols(),
                           .out = out.shape().cols(),
                           .layout = layout,
                           .bias = bias.defined(),
                           .accumulate = false,
                           .dtype = x.dtype(),
                           .out_dtype = out.dtype()};
  if (call.rows * call.in * call.out == 0) {
    PlainBackend::linear_forward(stream, x, weight, layout, bias, out);
    return;
  }
  launch_product(stream, call, x, weight, bias, out);
}

void OnednnBackend::linear_backward_input(Stream& stream, const Tensor& dy, const Tensor& weight,
                                          WeightLayout layout, const Tensor& dx, bool accumulate) {
  const LinearCall call = {.pass = LinearCall::Pass::kBackwardInput,
                           .rows = dy.shape().rows(),
                           .in = dx.shape().cols(),
                           .out = dy.shape().cols(),
                           .layout = layout,
                           .bias = false,
                           .accumulate = accumulate,
                           .dtype = dy.dtype(),
                           .out_dtype = dx.dtype()};
  if (call.rows * call.in * call.out == 0) {
    PlainBackend::linear_backward_input(stream, dy, weight, layout, dx, accumulate);
    return;
  }
  launch_product(stream, call, dy, weight, Tensor(), dx);
}

void OnednnBackend::linear_backward_weight(Stream& stream, const Tensor& x, const Tensor& dy,
                                           WeightLayout layout, const Tensor& dweight,
                                           bool accumulate) {
  const LinearCall call = {.pass = LinearCall::Pass::kBackwardWeight,
                           .rows = x.shape().rows(),
                           .in = x.shape().cols(),
                           .out = dy.shape().cols(),
                           .layout = layout,
                           .bias = false,
                           .accumulate = accumulate,
                           .dtype = x.dtype(),
                           .out_dtype = dweight.dtype()};
  if (call.rows * call.in * call.out == 0) {
    PlainBackend::linear_backward_weight(stream, x, dy, layout, dweight, accumulate);
    return;
  }
  const bool in_out = layout == WeightLayout::kInOut;
  launch_product(stream, call, in_out ? x : dy, in_out ? dy : x, Tensor(), dweight);
}

int64_t OnednnBackend::linear_workspace(const LinearCall& call) const {
  if (call.rows * call.in * call.out == 0 || call.dtype != DType::kFloat32) {
    return 0;
  }
  return products_.find(call).scratchpad_bytes();
}

void OnednnBackend::sum_rows(Stream& stream, const Tensor& x, const Tensor& out, bool accumulate) {
  // A block of columns is summed in registers, down all rows.
  constexpr int64_t kVectors = 8;
  constexpr int64_t kBlock = kVectors * onednn::kLanes;
  const int64_t cols = out.numel();
  onednn::launch_chunks(stream, cols, kBlock,
                        [x = floats(x), numel = x.numel(), cols, out = floats(out), accumulate](
                            int64_t first, int64_t last) {
                          for (int64_t begin = first; begin < last; begin += kBlock) {
                            const int64_t end = std::min(begin + kBlock, last);
                            Vector sums[kVectors] = {};
                            for (const float* row = x; row != x + numel; row += cols) {
                              Vector* sum = sums;
                              onednn::for_vectors(begin, end, [&](int64_t j, auto lanes) {
                                *sum++ += lanes.load(row + j);
                              });
                            }
                            const Vector* sum = sums;
                            onednn::for_vectors(begin, end, [&](int64_t j, auto lanes) {
                              onednn::put(lanes, out + j, *sum++, accumulate);
                            });
                          }
                        });
}

}  // namespace zerolab

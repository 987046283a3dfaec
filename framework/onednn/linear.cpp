#include <algorithm>

#include "framework/onednn/kernel.h"
#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/vector.h"
#include "framework/tensor/rank_context.h"

namespace zerolab {

using onednn::Vector;

void OnednnBackend::launch_product(Stream& stream, const LinearCall& call, const Tensor& a,
                                   const Tensor& b, const Tensor& bias, const Tensor& out) {
  const onednn::MatrixProduct& product = products_.find(call);
  const Tensor workspace = Tensor::workspace(out.context(), product.workspace_bytes());
  static_cast<CpuStream&>(stream).launch(
      [&product, a = a.raw(), b = b.raw(), bias = bias.raw(), out = out.raw(),
       workspace = onednn::floats(workspace)] { product.execute(a, b, bias, out, workspace); });
}

void OnednnBackend::linear_forward(Stream& stream, const Tensor& x, const Tensor& weight,
                                   WeightLayout layout, const Tensor& bias, const Tensor& out) {
  const LinearCall call = LinearCall::forward(x, layout, bias, out);
  if (call.is_empty()) {
    PlainBackend::linear_forward(stream, x, weight, layout, bias, out);
    return;
  }
  launch_product(stream, call, x, weight, bias, out);
}

void OnednnBackend::linear_backward_input(Stream& stream, const Tensor& dy, const Tensor& weight,
                                          WeightLayout layout, const Tensor& dx, bool accumulate) {
  const LinearCall call = LinearCall::backward_input(dy, layout, dx, accumulate);
  if (call.is_empty()) {
    PlainBackend::linear_backward_input(stream, dy, weight, layout, dx, accumulate);
    return;
  }
  launch_product(stream, call, dy, weight, Tensor(), dx);
}

void OnednnBackend::linear_backward_weight(Stream& stream, const Tensor& x, const Tensor& dy,
                                           WeightLayout layout, const Tensor& dweight,
                                           bool accumulate) {
  const LinearCall call = LinearCall::backward_weight(x, dy, layout, dweight, accumulate);
  if (call.is_empty()) {
    PlainBackend::linear_backward_weight(stream, x, dy, layout, dweight, accumulate);
    return;
  }
  const bool in_out = layout == WeightLayout::kInOut;
  launch_product(stream, call, in_out ? x : dy, in_out ? dy : x, Tensor(), dweight);
}

int64_t OnednnBackend::linear_workspace(const LinearCall& call) const {
  if (call.is_empty() || call.dtype == DType::kFloat64) {
    return 0;
  }
  return products_.find(call).workspace_bytes();
}

void OnednnBackend::sum_rows(Stream& stream, const Tensor& x, const Tensor& out, bool accumulate) {
  const int64_t cols = out.numel();
  onednn::with_type(x.dtype(), [&]<typename T>(T) {
    onednn::launch_chunks(
        stream, cols, onednn::kColumns,
        [x = onednn::elements<T>(x), numel = x.numel(), cols, out = onednn::ParameterGradient(out),
         accumulate](int64_t first, int64_t last) {
          for (int64_t begin = first; begin < last; begin += onednn::kColumns) {
            const int64_t end = std::min(begin + onednn::kColumns, last);
            Vector sums[onednn::kColumnVectors] = {};
            for (const T* row = x; row != x + numel; row += cols) {
              Vector* sum = sums;
              onednn::for_vectors(begin, end,
                                  [&](int64_t j, auto lanes) { *sum++ += lanes.load(row + j); });
            }
            const Vector* sum = sums;
            onednn::for_vectors(
                begin, end, [&](int64_t j, auto lanes) { out.put(lanes, j, *sum++, accumulate); });
          }
        });
  });
}

}  // namespace zerolab

#include "framework/cuda/column_sums.h"
#include "framework/cuda/cuda_backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab {

void CudaBackend::launch_product(Stream& stream, const LinearCall& call, const Tensor& a,
                                 const Tensor& b, const Tensor& bias, const Tensor& pre_activation,
                                 const Tensor& out) {
  if (out.numel() == 0) {
    return;
  }
  if (a.numel() == 0) {  // sums over nothing
    if (!call.accumulate) {
      fill(stream, out, 0.0);
    }
    if (bias.defined()) {
      add(stream, out, bias, out);
    }
    return;
  }
  const Tensor workspace = Tensor::workspace(out.context(), linear_workspace(call));
  const bool aligned = cuda::are_aligned(a.raw(), b.raw(), bias.raw(), out.raw());
  products_.find(call, aligned)
      .launch(cuda::handle_of(stream), a.raw(), b.raw(), bias.raw(), pre_activation.raw(),
              out.raw(), workspace.raw());
}

void CudaBackend::linear_forward(Stream& stream, const Tensor& x, const Tensor& weight,
                                 WeightLayout layout, const Tensor& bias, const Tensor& out) {
  launch_product(stream, LinearCall::forward(x, layout, bias, out), x, weight, bias, Tensor(), out);
}

void CudaBackend::linear_gelu_forward(Stream& stream, const Tensor& x, const Tensor& weight,
                                      WeightLayout layout, const Tensor& bias,
                                      const Tensor& pre_activation, const Tensor& out) {
  LinearCall call = LinearCall::forward(x, layout, bias, out);
  call.gelu = true;
  call.pre_activation = pre_activation.defined();
  // What cuBLASLt asks of a second result; a bias or a weight that begins anywhere is no reason.
  const bool fits =
      !call.pre_activation || (call.out % 8 == 0 && cuda::are_aligned(pre_activation.raw()));
  const bool aligned = cuda::are_aligned(x.raw(), weight.raw(), bias.raw(), out.raw());
  if (fits && !call.is_empty() && products_.find(call, aligned).exists()) {
    launch_product(stream, call, x, weight, bias, pre_activation, out);
  } else {
    Backend::linear_gelu_forward(stream, x, weight, layout, bias, pre_activation, out);
  }
}

void CudaBackend::linear_backward_input(Stream& stream, const Tensor& dy, const Tensor& weight,
                                        WeightLayout layout, const Tensor& dx, bool accumulate) {
  launch_product(stream, LinearCall::backward_input(dy, layout, dx, accumulate), dy, weight,
                 Tensor(), Tensor(), dx);
}

void CudaBackend::linear_backward_weight(Stream& stream, const Tensor& x, const Tensor& dy,
                                         WeightLayout layout, const Tensor& dweight,
                                         bool accumulate) {
  const bool in_out = layout == WeightLayout::kInOut;
  launch_product(stream, LinearCall::backward_weight(x, dy, layout, dweight, accumulate),
                 in_out ? x : dy, in_out ? dy : x, Tensor(), Tensor(), dweight);
}

int64_t CudaBackend::linear_workspace(const LinearCall& call) const {
  return call.is_empty() ? 0 : cuda::CublasProduct::workspace_bytes(call);
}

int64_t CudaBackend::sum_workspace(int64_t rows, int64_t cols) const {
  return cuda::sum_columns_workspace(rows, cols);
}

void CudaBackend::sum_rows(Stream& stream, const Tensor& x, const Tensor& out, bool accumulate) {
  const int64_t cols = out.numel();
  const int64_t rows = cols == 0 ? 0 : x.numel() / cols;
  const Tensor workspace = Tensor::workspace(out.context(), sum_workspace(rows, cols));
  cuda::with_device_types(x.dtype(), out.dtype(), [&]<typename T, typename Out>(T, Out) {
    cuda::sum_columns(stream, cuda::Elements<T>{x.data<T>(), cols}, rows, cols, out.data<Out>(),
                      accumulate, workspace.data<float>());
  });
}

}  // namespace zerolab

#include "framework/cuda/column_sums.h"
#include "framework/cuda/cuda_backend.h"

// A warp a row: its second and third passes over the row find it in the cache.

namespace zerolab {

using cuda::Element;
using cuda::kWarp;
using cuda::load;
using cuda::store;
using cuda::warp_sum;

namespace {

/// The calling warp's row; may be beyond the last.
__device__ int64_t warp_row() { return cuda::first_item() / kWarp; }

template <Element T>
__global__ void forward_kernel(const T* x, const T* weight, const T* bias, float epsilon,
                               int64_t rows, int64_t cols, T* out, float* mean, float* rstd) {
  const int64_t row = warp_row();
  if (row >= rows) {
    return;
  }
  const int lane = threadIdx.x % kWarp;
  x += row * cols;
  out += row * cols;
  float sum = 0.0F;
  for (int64_t j = lane; j < cols; j += kWarp) {
    sum += load(x[j]);
  }
  const float row_mean = warp_sum(sum) / static_cast<float>(cols);
  float squares = 0.0F;
  for (int64_t j = lane; j < cols; j += kWarp) {
    const float difference = load(x[j]) - row_mean;
    squares += difference * difference;
  }
  const float row_rstd = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(cols) + epsilon);
  for (int64_t j = lane; j < cols; j += kWarp) {
    const float shift = bias == nullptr ? 0.0F : load(bias[j]);
    store(out[j], (load(x[j]) - row_mean) * row_rstd * load(weight[j]) + shift);
  }
  if (lane == 0) {
    mean[row] = row_mean;
    rstd[row] = row_rstd;
  }
}

template <Element T>
__global__ void backward_input_kernel(const T* x, const T* weight, const float* mean,
                                      const float* rstd, const T* dy, int64_t rows, int64_t cols,
                                      T* dx, bool accumulate) {
  const int64_t row = warp_row();
  if (row >= rows) {
    return;
  }
  const int lane = threadIdx.x % kWarp;
  const float row_mean = mean[row];
  const float row_rstd = rstd[row];
  x += row * cols;
  dy += row * cols;
  dx += row * cols;
  float sum = 0.0F;             // of the gradients of the normalised elements
  float sum_normalized = 0.0F;  // of the same times those elements
  for (int64_t j = lane; j < cols; j += kWarp) {
    const float gradient = load(dy[j]) * load(weight[j]);
    sum += gradient;
    sum_normalized += gradient * ((load(x[j]) - row_mean) * row_rstd);
  }
  const float mean_gradient = warp_sum(sum) / static_cast<float>(cols);
  const float mean_normalized = warp_sum(sum_normalized) / static_cast<float>(cols);
  for (int64_t j = lane; j < cols; j += kWarp) {
    const float normalized = (load(x[j]) - row_mean) * row_rstd;
    const float gradient =
        (load(dy[j]) * load(weight[j]) - mean_gradient - normalized * mean_normalized) * row_rstd;
    store(dx[j], gradient, accumulate);
  }
}

/// What rows add to the gradient of the weight.
template <Element T>
struct WeightTerms {
  __device__ float operator()(int64_t i, int64_t j) const {
    return load(dy[i * cols + j]) * ((load(x[i * cols + j]) - mean[i]) * rstd[i]);
  }

  const T* x;
  const float* mean;
  const float* rstd;
  const T* dy;
  int64_t cols;
};

/// Launches `kernel` with a warp for each row.
template <typename... Parameters, typename... Arguments>
void launch_rows(Stream& stream, int64_t rows, void (*kernel)(Parameters...),
                 Arguments... arguments) {
  constexpr int kRows = cuda::kThreads / kWarp;
  if (rows > 0) {
    cuda::launch(kernel, dim3(static_cast<unsigned>((rows + kRows - 1) / kRows)),
                 dim3(cuda::kThreads), 0, cuda::handle_of(stream), arguments...);
  }
}

}  // namespace

void CudaBackend::layer_norm_forward(Stream& stream, const Tensor& x, const Tensor& weight,
                                     const Tensor& bias, double epsilon, const Tensor& out,
                                     const Tensor& mean, const Tensor& rstd) {
  cuda::with_device_type(x.dtype(), [&]<typename T>(T) {
    launch_rows(stream, x.shape().rows(), forward_kernel<T>, x.data<T>(), weight.data<T>(),
                bias.data<T>(), static_cast<float>(epsilon), x.shape().rows(), x.shape().cols(),
                out.data<T>(), mean.data<float>(), rstd.data<float>());
  });
}

void CudaBackend::layer_norm_backward_input(Stream& stream, const Tensor& x, const Tensor& weight,
                                            const Tensor& mean, const Tensor& rstd,
                                            const Tensor& dy, const Tensor& dx, bool accumulate) {
  cuda::with_device_type(x.dtype(), [&]<typename T>(T) {
    launch_rows(stream, x.shape().rows(), backward_input_kernel<T>, x.data<T>(), weight.data<T>(),
                mean.data<float>(), rstd.data<float>(), dy.data<T>(), x.shape().rows(),
                x.shape().cols(), dx.data<T>(), accumulate);
  });
}

void CudaBackend::layer_norm_backward_parameters(Stream& stream, const Tensor& x,
                                                 const Tensor& mean, const Tensor& rstd,
                                                 const Tensor& dy, const Tensor& dweight,
                                                 bool accumulate_weight, const Tensor& dbias,
                                                 bool accumulate_bias) {
  if (dweight.defined()) {
    cuda::with_device_types(x.dtype(), dweight.dtype(), [&]<typename T, typename Out>(T, Out) {
      const WeightTerms<T> terms = {x.data<T>(), mean.data<float>(), rstd.data<float>(),
                                    dy.data<T>(), x.shape().cols()};
      cuda::sum_columns(stream, terms, x.shape().rows(), x.shape().cols(), dweight.data<Out>(),
                        accumulate_weight);
    });
  }
  if (dbias.defined()) {
    sum_rows(stream, dy, dbias, accumulate_bias);
  }
}

}  // namespace zerolab

#include "framework/cuda/cuda_backend.h"
#include "framework/cuda/kernel.h"

namespace zerolab {
namespace {

// One block per row. Which elements a thread adds depends on their columns alone.

template <typename T>
__global__ void softmax_kernel(const T* x, int64_t cols, T* out) {
  const T* from = x + blockIdx.x * cols;
  const auto [largest, sum] = cuda::row_exponentials(from, cols);
  for (int64_t j = threadIdx.x; j < cols; j += blockDim.x) {
    cuda::store(out[blockIdx.x * cols + j], expf(cuda::load(from[j]) - largest) / sum);
  }
}

template <typename T>
__global__ void softmax_backward_kernel(const T* out, const T* dy, int64_t cols, T* dx,
                                        bool accumulate) {
  const int64_t at = blockIdx.x * cols;
  float mean = 0.0F;  // of the gradients, weighted with the softmax
  for (int64_t j = threadIdx.x; j < cols; j += blockDim.x) {
    mean += cuda::load(out[at + j]) * cuda::load(dy[at + j]);
  }
  mean = cuda::block_sum(mean);
  for (int64_t j = threadIdx.x; j < cols; j += blockDim.x) {
    cuda::store(dx[at + j], cuda::load(out[at + j]) * (cuda::load(dy[at + j]) - mean), accumulate);
  }
}

}  // namespace

void CudaBackend::softmax_forward(Stream& stream, const Tensor& x, const Tensor& out) {
  if (out.numel() == 0) {
    return;
  }
  cuda::with_device_type(out.dtype(), [&]<typename T>(T) {
    cuda::launch(softmax_kernel<T>, dim3(static_cast<unsigned>(out.shape().rows())),
                 dim3(cuda::kThreads), 0, cuda::handle_of(stream), x.data<T>(), out.shape().cols(),
                 out.data<T>());
  });
}

void CudaBackend::softmax_backward(Stream& stream, const Tensor& out, const Tensor& dy,
                                   const Tensor& dx, bool accumulate) {
  if (out.numel() == 0) {
    return;
  }
  cuda::with_device_type(out.dtype(), [&]<typename T>(T) {
    cuda::launch(softmax_backward_kernel<T>, dim3(static_cast<unsigned>(out.shape().rows())),
                 dim3(cuda::kThreads), 0, cuda::handle_of(stream), out.data<T>(), dy.data<T>(),
                 out.shape().cols(), dx.data<T>(), accumulate);
  });
}

}  // namespace zerolab

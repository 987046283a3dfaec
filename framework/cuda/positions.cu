#include "framework/cuda/cuda_backend.h"
#include "framework/cuda/kernel.h"

namespace zerolab {
namespace {

template <typename T>
struct MeanOfPositions {
  const T* x;
  T* out;
  int64_t positions;
  int64_t cols;

  template <int N>
  __device__ void run(int64_t i) const {
    static_assert(N == 1);
    const T* from = x + i / cols * positions * cols + i % cols;
    float sum = 0.0F;
    for (int64_t t = 0; t < positions; ++t) {
      sum += cuda::load(from[t * cols]);
    }
    cuda::store(out[i], sum / static_cast<float>(positions));
  }
};

}  // namespace

void CudaBackend::mean_positions(Stream& stream, const Tensor& x, const Tensor& out) {
  cuda::with_device_type(out.dtype(), [&]<typename T>(T) {
    cuda::for_packs<1>(cuda::handle_of(stream), out.numel(), true,
                       MeanOfPositions<T>{x.data<T>(), out.data<T>(), x.shape()[1], x.shape()[2]});
  });
}

}  // namespace zerolab

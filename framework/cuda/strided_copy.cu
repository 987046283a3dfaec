#include "framework/kernels/strided_copy.h"

#include "framework/cuda/cuda_backend.h"
#include "framework/cuda/kernel.h"

namespace zerolab {
namespace {

template <typename T>
struct CopyStrided {
  const T* source;
  StridedCopy copy;
  T* out;
  bool accumulate;

  template <int N>
  __device__ void run(int64_t i) const {
    static_assert(N == 1);
    int64_t from = copy.source.offset;
    int64_t to = copy.out.offset;
#pragma unroll
    for (int loop = 3; loop >= 0; --loop) {
      const int64_t index = i % copy.extents[loop];
      i /= copy.extents[loop];
      from += index * copy.source.strides[loop];
      to += index * copy.out.strides[loop];
    }
    cuda::store(out[to], cuda::load(source[from]), accumulate);
  }
};

}  // namespace

void CudaBackend::copy_strided(Stream& stream, const Tensor& source, const StridedCopy& copy,
                               const Tensor& out, bool accumulate) {
  cuda::with_device_type(out.dtype(), [&]<typename T>(T) {
    cuda::for_packs<1>(cuda::handle_of(stream), copy.numel(), true,
                       CopyStrided<T>{source.data<T>(), copy, out.data<T>(), accumulate});
  });
}

}  // namespace zerolab

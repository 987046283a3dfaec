#include "framework/cuda/collectives.h"

#include "framework/cuda/check.h"
#include "framework/cuda/cuda_backend.h"
#include "framework/cuda/kernel.h"

namespace zerolab {
namespace {

constexpr int kMaxSources = 256;  ///< a kernel's parameters have a few KiB

template <typename T>
struct ReduceInOrder {
  const T* sources[kMaxSources];
  int count;
  float divisor;
  T* out;

  template <int N>
  __device__ void run(int64_t i) const {
    float sums[N];
    auto pack = cuda::load_pack<N>(sources[0] + i);
    for (int lane = 0; lane < N; ++lane) {
      sums[lane] = cuda::load(pack.lanes[lane]);
    }
    for (int s = 1; s < count; ++s) {
      pack = cuda::load_pack<N>(sources[s] + i);
      for (int lane = 0; lane < N; ++lane) {
        sums[lane] += cuda::load(pack.lanes[lane]);
      }
    }
    for (int lane = 0; lane < N; ++lane) {
      cuda::store(pack.lanes[lane], sums[lane] / divisor);
    }
    cuda::store_pack(out + i, pack);
  }
};

}  // namespace

void cuda::reduce_in_order(cudaStream_t stream, std::span<const std::byte* const> sources,
                           DType dtype, double divisor, std::span<std::byte> out) {
  require(sources.size() <= kMaxSources, "cuda", "too many ranks; got {}, expected at most {}",
          sources.size(), kMaxSources);
  cuda::with_device_type(dtype, [&]<typename T>(T) {
    ReduceInOrder<T> body{.sources = {},
                          .count = static_cast<int>(sources.size()),
                          .divisor = static_cast<float>(divisor),
                          .out = reinterpret_cast<T*>(out.data())};
    bool aligned = cuda::are_aligned(body.out);
    for (size_t s = 0; s < sources.size(); ++s) {
      body.sources[s] = reinterpret_cast<const T*>(sources[s]);
      aligned = aligned && cuda::are_aligned(body.sources[s]);
    }
    cuda::for_packs<cuda::kLanes<T>>(stream, static_cast<int64_t>(out.size() / sizeof(T)), aligned,
                                     body);
  });
}

void CudaBackend::reduce_in_order(std::span<const std::byte* const> sources, DType dtype,
                                  double divisor, std::span<std::byte> out) {
  cuda::reduce_in_order(cudaStreamPerThread, sources, dtype, divisor, out);
  cuda::check(cudaStreamSynchronize(cudaStreamPerThread), "reducing");
}

}  // namespace zerolab

#include <cmath>

#include "framework/cuda/cuda_backend.h"
#include "framework/cuda/kernel.h"
#include "framework/kernels/dropout_key.h"

namespace zerolab {
namespace {

/// core/philox.h, on the device.
struct Words {
  uint32_t of[4];
};
__device__ Words philox_on_device(uint64_t key, uint64_t counter_high, uint64_t counter_low) {
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  Words c = {static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
             static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c.of[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c.of[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c.of[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c.of[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

/// Where N > 1, 4 divides N, and N the elements of a sample.
template <typename T>
struct Dropout {
  const T* x;
  T* out;
  bool accumulate;
  uint64_t key;
  int64_t first_sample;
  int64_t per_sample;
  uint32_t dropped_below;  ///< of the upper 24 bits
  float keep_scale;

  template <int N>
  __device__ void run(int64_t i) const {
    const int64_t sample = i / per_sample;
    const int64_t first = i - sample * per_sample;
    const auto x_pack = cuda::load_pack<N>(x + i);
    cuda::Pack<T, N> out_pack;
    if (accumulate) {
      out_pack = cuda::load_pack<N>(out + i);
    }
    Words words;
    for (int lane = 0; lane < N; ++lane) {
      if (lane % 4 == 0) {
        words = philox_on_device(key, first_sample + sample, (first + lane) / 4);
      }
      const uint32_t word = words.of[(N == 1 ? first : lane) % 4];
      const float value =
          word >> 8 >= dropped_below ? cuda::load(x_pack.lanes[lane]) * keep_scale : 0.0F;
      cuda::store(out_pack.lanes[lane], value, accumulate);
    }
    cuda::store_pack(out + i, out_pack);
  }
};

}  // namespace

void CudaBackend::dropout(Stream& stream, const Tensor& x, const DropoutKey& key, const Tensor& out,
                          bool accumulate) {
  if (out.numel() == 0) {
    return;
  }
  cuda::with_device_type(out.dtype(), [&]<typename T>(T) {
    constexpr int kLanes = cuda::kLanes<T>;
    // uniform >= p is the same as its 24 bits >= p * 2^24, which is exact.
    const Dropout<T> body{x.data<T>(),
                          out.data<T>(),
                          accumulate,
                          key.seed ^ (key.op * 0x9E3779B97F4A7C15),
                          key.first_sample,
                          out.numel() / out.shape()[0],
                          static_cast<uint32_t>(std::ceil(key.probability * 0x1p24)),
                          static_cast<float>(1.0 / (1.0 - key.probability))};
    cuda::for_packs<kLanes>(cuda::handle_of(stream), out.numel(),
                            cuda::are_aligned(body.x, body.out) && body.per_sample % kLanes == 0,
                            body);
  });
}

}  // namespace zerolab

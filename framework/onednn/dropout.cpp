#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "framework/kernels/dropout_key.h"
#include "framework/onednn/kernel.h"
#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/vector.h"

namespace zerolab {

using onednn::elements;
using onednn::IntVector;
using onednn::kLanes;
using onednn::Vector;

namespace {

constexpr int kCounters = 8;
constexpr int64_t kGroup = 4 * kCounters;  ///< random numbers made at once
using WideVector = uint64_t __attribute__((vector_size(kCounters * sizeof(uint64_t))));

/// core/philox.h for eight counters at once, each 32-bit word in a lane of 64 bits: the numbers of
/// elements [4 * counter, 4 * counter + 32), in the order of the elements.
std::array<int32_t, kGroup> philox_group(uint64_t key, uint64_t counter_high, uint64_t counter) {
  constexpr uint64_t kLow = 0xFFFFFFFF;
  const WideVector counters = WideVector{0, 1, 2, 3, 4, 5, 6, 7} + counter;
  WideVector c[4] = {counters & kLow, counters >> 32, WideVector{} + (counter_high & kLow),
                     WideVector{} + (counter_high >> 32)};
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const WideVector p0 = c[0] * 0xD2511F53;
    const WideVector p1 = c[2] * 0xCD9E8D57;
    c[0] = (p1 >> 32) ^ c[1] ^ k0;
    c[1] = p1 & kLow;
    c[2] = (p0 >> 32) ^ c[3] ^ k1;
    c[3] = p0 & kLow;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  std::array<int32_t, kGroup> result;
  for (int i = 0; i < kCounters; ++i) {
    for (int word = 0; word < 4; ++word) {
      result[4 * i + word] = static_cast<int32_t>(c[word][i]);
    }
  }
  return result;
}

}  // namespace

void OnednnBackend::dropout(Stream& stream, const Tensor& x, const DropoutKey& key,
                            const Tensor& out, bool accumulate) {
  if (out.numel() == 0) {
    return;
  }
  const int64_t per_sample = out.numel() / out.shape()[0];
  const int64_t groups = (per_sample + kGroup - 1) / kGroup;  // of each sample
  onednn::with_type(out.dtype(), [&]<typename T>(T) {
    onednn::launch_chunks(
        stream, out.shape()[0] * groups, onednn::row_grain(kGroup),
        [x = elements<T>(x), out = elements<T>(out), per_sample, groups,
         first_sample = key.first_sample, philox_key = key.seed ^ (key.op * 0x9E3779B97F4A7C15),
         // A number of 24 bits is at least the probability when its integer is at least this.
         threshold = static_cast<int32_t>(std::ceil(key.probability * 0x1p24)),
         keep_scale = static_cast<float>(1.0 / (1.0 - key.probability)),
         accumulate](int64_t begin, int64_t end) {
          for (int64_t group = begin; group < end; ++group) {
            const int64_t sample = group / groups;
            const int64_t first = group % groups * kGroup;
            const int64_t at = sample * per_sample + first;
            const auto numbers = philox_group(philox_key, first_sample + sample, first / 4);
            onednn::for_vectors(
                0, std::min(kGroup, per_sample - first), [&](int64_t i, auto lanes) {
                  IntVector bits;
                  std::memcpy(&bits, numbers.data() + i, sizeof(bits));
                  const Vector kept = lanes.load(x + at + i) * keep_scale;
                  const Vector result = ((bits >> 8) & 0xFFFFFF) >= threshold ? kept : Vector{};
                  onednn::put(lanes, out + at + i, result, accumulate);
                });
          }
        });
  });
}

}  // namespace zerolab

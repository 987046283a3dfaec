#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <mutex>
#include <vector>

#include "framework/core/exact_sum.h"
#include "framework/onednn/kernel.h"
#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/vector.h"

namespace zerolab {

using onednn::kLanes;
using onednn::Vector;

namespace {

constexpr int kHalf = kLanes / 2;
using HalfVector = float __attribute__((vector_size(kHalf * sizeof(float))));
using DoubleVector = double __attribute__((vector_size(kHalf * sizeof(double))));

/// What one thread has found.
struct Statistics {
  std::array<int64_t, kStatisticsWords> words = {};

  Statistics() { words[kFirstNonFiniteWord] = kAllFinite; }

  template <typename T>
  void add(const T* gradient, int64_t begin, int64_t end, int64_t base_index, double sum) {
    // The elements of a block are looked at only where their sum is not finite.
    std::vector<float> block(std::isfinite(sum) ? 0 : end - begin);
    std::transform(gradient + begin, gradient + begin + block.size(), block.begin(),
                   [](T element) { return static_cast<float>(element); });
    add_block(words, block, base_index + begin, sum);
  }
};

template <typename T>
double sum_of_squares(const T* gradient, int64_t numel) {
  double sum = 0.0;
  for (int64_t i = 0; i < numel; ++i) {
    const double element = static_cast<float>(gradient[i]);
    sum += element * element;
  }
  return sum;
}

/// The sums of squares of 16 neighbouring blocks, one a lane, each in element order.
template <typename T>
std::array<double, kLanes> sums_of_squares(const T* gradient, int64_t block) {
  DoubleVector sums[2] = {};
  for (int64_t i = 0; i < block; i += kLanes) {
    Vector rows[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      rows[lane] = onednn::load(gradient + lane * block + i);
      // The hardware does not prefetch from sixteen places at once, so each line names what comes
      // next.
      __builtin_prefetch(gradient + kLanes * (block + i + lane));
    }
    onednn::transpose(rows);
    for (const Vector& elements : rows) {
      HalfVector halves[2];
      std::memcpy(halves, &elements, sizeof(halves));
      for (int half = 0; half < 2; ++half) {
        const DoubleVector wide = __builtin_convertvector(halves[half], DoubleVector);
        sums[half] += wide * wide;
      }
    }
  }
  std::array<double, kLanes> result;
  std::memcpy(result.data(), sums, sizeof(sums));
  return result;
}

}  // namespace

void OnednnBackend::gradient_statistics(Stream& stream, const Tensor& gradient, int64_t block,
                                        int64_t base_index, const Tensor& statistics) {
  onednn::with_type(gradient.dtype(), [&]<typename T>(T) {
    static_cast<CpuStream&>(stream).launch([threads = onednn::threads_for(stream),
                                            gradient = onednn::elements<T>(gradient),
                                            numel = gradient.numel(), block, base_index,
                                            words = statistics.data<int64_t>()] {
      std::mutex mutex;
      const auto add_blocks = [&](int64_t first, int64_t last) {
        Statistics found;
        while (first < last) {
          const int64_t begin = first * block;
          if (block % kLanes == 0 && first + kLanes <= last && begin + kLanes * block <= numel) {
            const auto sums = sums_of_squares(gradient + begin, block);
            for (int64_t lane = 0; lane < kLanes; ++lane) {
              const int64_t at = begin + lane * block;
              found.add(gradient, at, at + block, base_index, sums[lane]);
            }
            first += kLanes;
          } else {
            const int64_t end = std::min(begin + block, numel);
            found.add(gradient, begin, end, base_index,
                      sum_of_squares(gradient + begin, end - begin));
            ++first;
          }
        }
        const std::lock_guard lock(mutex);
        for (int i = 0; i < kExactSumWords; ++i) {
          words[i] += found.words[i];
        }
        if (found.words[kFirstNonFiniteWord] < words[kFirstNonFiniteWord]) {
          words[kFirstNonFiniteWord] = found.words[kFirstNonFiniteWord];
          words[kNonFiniteKindWord] = found.words[kNonFiniteKindWord];
        }
      };
      onednn::parallel_chunks(threads, (numel + block - 1) / block, onednn::row_grain(block),
                              add_blocks);
    });
  });
}

}  // namespace zerolab

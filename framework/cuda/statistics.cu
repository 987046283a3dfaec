#include <cstring>

#include "framework/core/exact_sum.h"
#include "framework/cuda/cuda_backend.h"
#include "framework/cuda/kernel.h"

namespace zerolab {
namespace {

using Word = unsigned long long;  // what integer atomics take

constexpr int kDigits = 3;  ///< of 32 bits, that a double may touch in an exact sum

/// A double >= 0 as digits of an exact sum (core/exact_sum.h's `add_exactly`), from digit `word`
/// on.
struct Digits {
  int word;
  Word of[kDigits];
};
__device__ Digits digits_of(double value) {
  Word bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  const auto exponent = static_cast<int>(bits >> 52 & 0x7FF);
  const Word fraction = bits & ((Word{1} << 52) - 1);
  const Word mantissa = exponent == 0 ? fraction : fraction | Word{1} << 52;
  const int position = (exponent == 0 ? 1 : exponent) - 1075 + 1126;
  const int shift = position % 32;
  const Word low = (mantissa & 0xFFFFFFFF) << shift;
  const Word high = ((mantissa >> 32) << shift) + (low >> 32);
  return {position / 32, {low & 0xFFFFFFFF, high & 0xFFFFFFFF, high >> 32}};
}

template <typename T>
__device__ bool is_finite(T element) {
  const float number = cuda::load(element);
  return number - number == 0.0F;
}

/// A thread adds up one block of the gradient; a warp adds its threads' digits, so that little is
/// left for atomic additions, whose order does not matter among integers.
template <typename T>
__global__ void add_squares_kernel(const T* gradient, int64_t numel, int64_t block,
                                   int64_t base_index, int64_t* words) {
  __shared__ Word of_block[kExactSumWords];
  for (int word = threadIdx.x; word < kExactSumWords; word += blockDim.x) {
    of_block[word] = 0;
  }
  __syncthreads();
  const int64_t blocks = (numel + block - 1) / block;
  // Whole warps go round the loop together, since they shuffle.
  for (int64_t of_warp = cuda::first_item() / cuda::kWarp * cuda::kWarp; of_warp < blocks;
       of_warp += cuda::item_stride()) {
    const int64_t begin = (of_warp + threadIdx.x % cuda::kWarp) * block;
    const int64_t end = begin + block < numel ? begin + block : numel;
    double sum = 0.0;
    int64_t first_bad = end;
    for (int64_t i = begin; i < end; ++i) {
      const double value = cuda::load(gradient[i]);
      sum += value * value;
      first_bad = i < first_bad && !is_finite(gradient[i]) ? i : first_bad;
    }
    if (first_bad < end) {
      atomicMin(reinterpret_cast<Word*>(words + kFirstNonFiniteWord),
                static_cast<Word>(base_index + first_bad));
      sum = 0.0;
    }
    const Digits digits = digits_of(sum);
    const int lowest = -cuda::warp_max(sum > 0.0 ? -digits.word : -kExactSumWords);
    const int highest = cuda::warp_max(sum > 0.0 ? digits.word + kDigits - 1 : -1);
    for (int word = lowest; word <= highest; ++word) {
      const int digit = word - digits.word;
      const Word added =
          cuda::warp_sum(sum > 0.0 && digit >= 0 && digit < kDigits ? digits.of[digit] : Word{0});
      if (threadIdx.x % cuda::kWarp == 0) {
        atomicAdd(of_block + word, added);
      }
    }
  }
  __syncthreads();
  for (int word = threadIdx.x; word < kExactSumWords; word += blockDim.x) {
    if (of_block[word] != 0) {
      atomicAdd(reinterpret_cast<Word*>(words + word), of_block[word]);
    }
  }
}

/// Makes the kind follow where the first non-finite element is one of these. One thread.
template <typename T>
__global__ void find_kind_kernel(const T* gradient, int64_t numel, int64_t base_index,
                                 int64_t* words) {
  const int64_t i = words[kFirstNonFiniteWord] - base_index;
  if (i >= 0 && i < numel) {
    const float element = cuda::load(gradient[i]);
    words[kNonFiniteKindWord] = element != element ? kNaN : kInfinity;
  }
}

}  // namespace

void CudaBackend::gradient_statistics(Stream& stream, const Tensor& gradient, int64_t block,
                                      int64_t base_index, const Tensor& statistics) {
  const int64_t numel = gradient.numel();
  if (numel == 0) {
    return;
  }
  cuda::with_device_type(gradient.dtype(), [&]<typename T>(T) {
    cuda::launch(add_squares_kernel<T>, cuda::grid_for((numel + block - 1) / block),
                 dim3(cuda::kThreads), 0, cuda::handle_of(stream), gradient.data<T>(), numel, block,
                 base_index, statistics.data<int64_t>());
    cuda::launch(find_kind_kernel<T>, dim3(1), dim3(1), 0, cuda::handle_of(stream),
                 gradient.data<T>(), numel, base_index, statistics.data<int64_t>());
  });
}

}  // namespace zerolab

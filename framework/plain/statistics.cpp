#include <algorithm>

#include "framework/core/exact_sum.h"
#include "framework/plain/kernel.h"
#include "framework/plain/plain_backend.h"

namespace zerolab {

void PlainBackend::gradient_statistics(Stream& stream, const Tensor& gradient, int64_t block,
                                       int64_t base_index, const Tensor& statistics) {
  plain::launch(stream, [gradient = gradient.data<float>(), numel = gradient.numel(), block,
                         base_index, words = statistics.data<int64_t>()] {
    for (int64_t begin = 0; begin < numel; begin += block) {
      const int64_t end = std::min(begin + block, numel);
      double sum = 0.0;
      for (int64_t i = begin; i < end; ++i) {
        sum += static_cast<double>(gradient[i]) * gradient[i];
      }
      add_block({words, kStatisticsWords}, {gradient + begin, gradient + end}, base_index + begin,
                sum);
    }
  });
}

}  // namespace zerolab

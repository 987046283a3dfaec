#include <algorithm>
#include <vector>

#include "framework/core/exact_sum.h"
#include "framework/plain/kernel.h"
#include "framework/plain/plain_backend.h"

namespace zerolab {

void PlainBackend::gradient_statistics(Stream& stream, const Tensor& gradient, int64_t block,
                                       int64_t base_index, const Tensor& statistics) {
  with_float_type(gradient.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [gradient = gradient.data<T>(), numel = gradient.numel(), block,
                           base_index, words = statistics.data<int64_t>()] {
      std::vector<float> values(std::min(block, numel));
      for (int64_t begin = 0; begin < numel; begin += block) {
        const int64_t size = std::min(block, numel - begin);
        double sum = 0.0;
        for (int64_t i = 0; i < size; ++i) {
          const double value = widened(gradient[begin + i]);
          sum += value * value;
          values[i] = static_cast<float>(value);
        }
        add_block({words, kStatisticsWords}, {values.data(), static_cast<size_t>(size)},
                  base_index + begin, sum);
      }
    });
  });
}

}  // namespace zerolab

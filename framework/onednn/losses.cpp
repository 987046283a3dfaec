#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/onednn/kernel.h"
#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/vector_math.h"

namespace zerolab {

using onednn::broadcast;
using onednn::elements;
using onednn::floats;
using onednn::for_vectors;
using onednn::kLanes;
using onednn::launch_chunks;
using onednn::put;
using onednn::Vector;
using onednn::with_type;

namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

/// log(sum of e^row[j]), read from memory once: in blocks that fit the first cache, with the sum so
/// far scaled down whenever a block holds a new largest element.
template <typename T>
float log_sum_exp_of(const T* row, int64_t cols) {
  constexpr int64_t kBlock = 2048;
  float largest = kLowest;
  double sum = 0.0;
  for (int64_t begin = 0; begin < cols; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, cols);
    Vector block_largest = broadcast(kLowest);
    for_vectors(begin, end, [&](int64_t j, auto lanes) {
      const Vector logits = lanes.keep(lanes.load(row + j), broadcast(kLowest));
      block_largest = onednn::maximum(logits, block_largest);
    });
    const float new_largest = std::max(largest, onednn::largest_of(block_largest));
    if (new_largest == kLowest) {
      continue;  // nothing but -inf so far: a difference would be NaN
    }
    Vector sums[4] = {};
    for_vectors(begin, end, [&](int64_t j, auto lanes) {
      sums[(j - begin) / kLanes % 4] += lanes.keep(onednn::exp(lanes.load(row + j) - new_largest));
    });
    sum = sum * std::exp(static_cast<double>(largest) - new_largest) +
          onednn::sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
    largest = new_largest;
  }
  return static_cast<float>(largest + std::log(sum));
}

}  // namespace

void OnednnBackend::cross_entropy_forward(Stream& stream, const Tensor& logits,
                                          const Tensor& targets, const Tensor& log_sum_exp,
                                          const Tensor& loss) {
  const int64_t rows = logits.shape().rows();
  const int64_t cols = logits.shape().cols();
  static_cast<CpuStream&>(stream).launch([targets = targets.data<int32_t>(), rows, cols] {
    onednn::require_within(targets, rows, cols, "cross_entropy");
  });
  with_type(logits.dtype(), [&]<typename T>(T) {
    launch_chunks(stream, rows, onednn::row_grain(cols),
                  [logits = elements<T>(logits), log_sum_exp = floats(log_sum_exp), cols](
                      int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) {
                      log_sum_exp[i] = log_sum_exp_of(logits + i * cols, cols);
                    }
                  });
    static_cast<CpuStream&>(stream).launch(
        [logits = elements<T>(logits), targets = targets.data<int32_t>(),
         log_sum_exp = floats(log_sum_exp), loss = floats(loss), rows, cols] {
          double total = 0.0;
          for (int64_t i = 0; i < rows; ++i) {
            total += log_sum_exp[i] - static_cast<float>(logits[i * cols + targets[i]]);
          }
          *loss = static_cast<float>(total / static_cast<double>(rows));
        });
  });
}

void OnednnBackend::cross_entropy_backward(Stream& stream, const Tensor& dloss,
                                           const Tensor& targets, const Tensor& log_sum_exp,
                                           const Tensor& logits) {
  const int64_t rows = logits.shape().rows();
  const int64_t cols = logits.shape().cols();
  with_type(logits.dtype(), [&]<typename T>(T) {
    launch_chunks(stream, rows, onednn::row_grain(cols),
                  [dloss = floats(dloss), targets = targets.data<int32_t>(),
                   log_sum_exp = floats(log_sum_exp), logits = elements<T>(logits), rows,
                   cols](int64_t begin, int64_t end) {
                    const float factor = *dloss / static_cast<float>(rows);
                    for (int64_t i = begin; i < end; ++i) {
                      T* row = logits + i * cols;
                      const auto target = static_cast<float>(row[targets[i]]);
                      for_vectors(0, cols, [&](int64_t j, auto lanes) {
                        lanes.store(row + j,
                                    onednn::exp(lanes.load(row + j) - log_sum_exp[i]) * factor);
                      });
                      const Vector probability = onednn::exp(broadcast(target - log_sum_exp[i]));
                      row[targets[i]] = static_cast<T>((probability[0] - 1.0F) * factor);
                    }
                  });
  });
}

void OnednnBackend::mse_backward(Stream& stream, const Tensor& dloss, const Tensor& prediction,
                                 const Tensor& target, const Tensor& dprediction, bool accumulate) {
  with_type(prediction.dtype(), [&]<typename T>(T) {
    launch_chunks(stream, prediction.numel(), onednn::kGrain,
                  [dloss = floats(dloss), prediction = elements<T>(prediction),
                   target = elements<T>(target), dprediction = elements<T>(dprediction),
                   numel = prediction.numel(), accumulate](int64_t begin, int64_t end) {
                    const float factor =
                        *dloss * static_cast<float>(2.0 / static_cast<double>(numel));
                    for_vectors(begin, end, [&](int64_t i, auto lanes) {
                      const Vector difference = lanes.load(prediction + i) - lanes.load(target + i);
                      put(lanes, dprediction + i, factor * difference, accumulate);
                    });
                  });
  });
}

}  // namespace zerolab

#include <algorithm>
#include <cmath>

#include "framework/core/error.h"
#include "framework/plain/kernel.h"
#include "framework/plain/plain_backend.h"

namespace zerolab {

void PlainBackend::cross_entropy_forward(Stream& stream, const Tensor& logits,
                                         const Tensor& targets, const Tensor& log_sum_exp,
                                         const Tensor& loss) {
  with_float_type(logits.dtype(), [&]<typename T>(T) {
    plain::launch(stream,
                  [logits = logits.data<T>(), targets = targets.data<int32_t>(),
                   log_sum_exp = log_sum_exp.data<Compute<T>>(), loss = loss.data<Compute<T>>(),
                   rows = logits.shape().rows(), cols = logits.shape().cols()] {
                    double total = 0.0;
                    for (int64_t i = 0; i < rows; ++i) {
                      require(targets[i] >= 0 && targets[i] < cols, "cross_entropy",
                              "a target is outside the vocabulary; got {}, expected within [0, {})",
                              targets[i], cols);
                      const T* row = logits + i * cols;
                      Compute<T> largest = widened(row[0]);
                      for (int64_t j = 1; j < cols; ++j) {
                        largest = std::max(largest, widened(row[j]));
                      }
                      double sum = 0.0;
                      for (int64_t j = 0; j < cols; ++j) {
                        sum += std::exp(widened(row[j]) - largest);
                      }
                      log_sum_exp[i] = static_cast<Compute<T>>(largest + std::log(sum));
                      total += log_sum_exp[i] - widened(row[targets[i]]);
                    }
                    *loss = static_cast<Compute<T>>(total / static_cast<double>(rows));
                  });
  });
}

void PlainBackend::cross_entropy_backward(Stream& stream, const Tensor& dloss,
                                          const Tensor& targets, const Tensor& log_sum_exp,
                                          const Tensor& logits) {
  with_float_type(logits.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [dloss = dloss.data<Compute<T>>(), targets = targets.data<int32_t>(),
                           log_sum_exp = log_sum_exp.data<Compute<T>>(), logits = logits.data<T>(),
                           rows = logits.shape().rows(), cols = logits.shape().cols()] {
      const Compute<T> factor = *dloss / static_cast<Compute<T>>(rows);
      for (int64_t i = 0; i < rows; ++i) {
        T* row = logits + i * cols;
        for (int64_t j = 0; j < cols; ++j) {
          const Compute<T> probability = std::exp(widened(row[j]) - log_sum_exp[i]);
          plain::store(row[j], (probability - (j == targets[i] ? 1 : 0)) * factor, false);
        }
      }
    });
  });
}

void PlainBackend::mse_forward(Stream& stream, const Tensor& prediction, const Tensor& target,
                               const Tensor& loss) {
  with_float_type(prediction.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [prediction = prediction.data<T>(), target = target.data<T>(),
                           loss = loss.data<Compute<T>>(), numel = prediction.numel()] {
      double sum = 0.0;
      for (int64_t i = 0; i < numel; ++i) {
        const double difference = widened(prediction[i]) - widened(target[i]);
        sum += difference * difference;
      }
      *loss = static_cast<Compute<T>>(sum / static_cast<double>(numel));
    });
  });
}

void PlainBackend::mse_backward(Stream& stream, const Tensor& dloss, const Tensor& prediction,
                                const Tensor& target, const Tensor& dprediction, bool accumulate) {
  with_float_type(prediction.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [dloss = dloss.data<Compute<T>>(), prediction = prediction.data<T>(),
                           target = target.data<T>(), dprediction = dprediction.data<T>(),
                           numel = prediction.numel(), accumulate] {
      const Compute<T> factor = *dloss * static_cast<Compute<T>>(2.0 / static_cast<double>(numel));
      for (int64_t i = 0; i < numel; ++i) {
        plain::store(dprediction[i], factor * (widened(prediction[i]) - widened(target[i])),
                     accumulate);
      }
    });
  });
}

}  // namespace zerolab

#include <cmath>
#include <vector>

#include "framework/plain/kernel.h"
#include "framework/plain/plain_backend.h"

namespace zerolab {

void PlainBackend::layer_norm_forward(Stream& stream, const Tensor& x, const Tensor& weight,
                                      const Tensor& bias, double epsilon, const Tensor& out,
                                      const Tensor& mean, const Tensor& rstd) {
  plain::with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [x = x.data<T>(), weight = weight.data<T>(), bias = bias.data<T>(),
                           out = out.data<T>(), mean = mean.data<T>(), rstd = rstd.data<T>(),
                           rows = x.shape().rows(), cols = x.shape().cols(), epsilon] {
      for (int64_t i = 0; i < rows; ++i) {
        const T* row = x + i * cols;
        double sum = 0.0;
        for (int64_t j = 0; j < cols; ++j) {
          sum += row[j];
        }
        const double row_mean = sum / static_cast<double>(cols);
        double squares = 0.0;
        for (int64_t j = 0; j < cols; ++j) {
          squares += (row[j] - row_mean) * (row[j] - row_mean);
        }
        mean[i] = static_cast<T>(row_mean);
        rstd[i] = static_cast<T>(1.0 / std::sqrt(squares / static_cast<double>(cols) + epsilon));
        for (int64_t j = 0; j < cols; ++j) {
          const T normalized = (row[j] - mean[i]) * rstd[i];
          out[i * cols + j] = normalized * weight[j] + (bias == nullptr ? T(0) : bias[j]);
        }
      }
    });
  });
}

void PlainBackend::layer_norm_backward_input(Stream& stream, const Tensor& x, const Tensor& weight,
                                             const Tensor& mean, const Tensor& rstd,
                                             const Tensor& dy, const Tensor& dx, bool accumulate) {
  plain::with_float_type(dx.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [x = x.data<T>(), weight = weight.data<T>(), mean = mean.data<T>(),
                           rstd = rstd.data<T>(), dy = dy.data<T>(), dx = dx.data<T>(),
                           rows = x.shape().rows(), cols = x.shape().cols(), accumulate] {
      for (int64_t i = 0; i < rows; ++i) {
        const T* x_row = x + i * cols;
        const T* dy_row = dy + i * cols;
        double sum = 0.0;             // of the gradients of the normalised elements
        double sum_normalized = 0.0;  // of the same times those elements
        for (int64_t j = 0; j < cols; ++j) {
          const T gradient = dy_row[j] * weight[j];
          sum += gradient;
          sum_normalized += gradient * ((x_row[j] - mean[i]) * rstd[i]);
        }
        const T mean_gradient = static_cast<T>(sum / static_cast<double>(cols));
        const T mean_normalized = static_cast<T>(sum_normalized / static_cast<double>(cols));
        for (int64_t j = 0; j < cols; ++j) {
          const T normalized = (x_row[j] - mean[i]) * rstd[i];
          const T gradient =
              (dy_row[j] * weight[j] - mean_gradient - normalized * mean_normalized) * rstd[i];
          plain::store(dx[i * cols + j], gradient, accumulate);
        }
      }
    });
  });
}

void PlainBackend::layer_norm_backward_parameters(Stream& stream, const Tensor& x,
                                                  const Tensor& mean, const Tensor& rstd,
                                                  const Tensor& dy, const Tensor& dweight,
                                                  bool accumulate_weight, const Tensor& dbias,
                                                  bool accumulate_bias) {
  plain::with_float_type(dy.dtype(), [&]<typename T>(T) {
    plain::launch(stream,
                  [x = x.data<T>(), mean = mean.data<T>(), rstd = rstd.data<T>(), dy = dy.data<T>(),
                   dweight = dweight.data<T>(), accumulate_weight, dbias = dbias.data<T>(),
                   accumulate_bias, rows = x.shape().rows(), cols = x.shape().cols()] {
                    std::vector<T> weight_sums(cols);
                    std::vector<T> bias_sums(cols);
                    for (int64_t i = 0; i < rows; ++i) {
                      for (int64_t j = 0; j < cols; ++j) {
                        const int64_t at = i * cols + j;
                        weight_sums[j] += dy[at] * ((x[at] - mean[i]) * rstd[i]);
                        bias_sums[j] += dy[at];
                      }
                    }
                    for (int64_t j = 0; j < cols; ++j) {
                      if (dweight != nullptr) {
                        plain::store(dweight[j], weight_sums[j], accumulate_weight);
                      }
                      if (dbias != nullptr) {
                        plain::store(dbias[j], bias_sums[j], accumulate_bias);
                      }
                    }
                  });
  });
}

}  // namespace zerolab

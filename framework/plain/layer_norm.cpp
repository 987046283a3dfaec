#include <cmath>
#include <vector>

#include "framework/plain/kernel.h"
#include "framework/plain/plain_backend.h"

namespace zerolab {

void PlainBackend::layer_norm_forward(Stream& stream, const Tensor& x, const Tensor& weight,
                                      const Tensor& bias, double epsilon, const Tensor& out,
                                      const Tensor& mean, const Tensor& rstd) {
  with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [x = x.data<T>(), weight = weight.data<T>(), bias = bias.data<T>(),
                           out = out.data<T>(), mean = mean.data<Compute<T>>(),
                           rstd = rstd.data<Compute<T>>(), rows = x.shape().rows(),
                           cols = x.shape().cols(), epsilon] {
      for (int64_t i = 0; i < rows; ++i) {
        const T* row = x + i * cols;
        double sum = 0.0;
        for (int64_t j = 0; j < cols; ++j) {
          sum += widened(row[j]);
        }
        const double row_mean = sum / static_cast<double>(cols);
        double squares = 0.0;
        for (int64_t j = 0; j < cols; ++j) {
          const double difference = widened(row[j]) - row_mean;
          squares += difference * difference;
        }
        mean[i] = static_cast<Compute<T>>(row_mean);
        rstd[i] =
            static_cast<Compute<T>>(1.0 / std::sqrt(squares / static_cast<double>(cols) + epsilon));
        for (int64_t j = 0; j < cols; ++j) {
          const Compute<T> normalized = (widened(row[j]) - mean[i]) * rstd[i];
          const Compute<T> shift = bias == nullptr ? 0 : widened(bias[j]);
          plain::store(out[i * cols + j], normalized * widened(weight[j]) + shift, false);
        }
      }
    });
  });
}

void PlainBackend::layer_norm_backward_input(Stream& stream, const Tensor& x, const Tensor& weight,
                                             const Tensor& mean, const Tensor& rstd,
                                             const Tensor& dy, const Tensor& dx, bool accumulate) {
  with_float_type(dx.dtype(), [&]<typename T>(T) {
    plain::launch(
        stream, [x = x.data<T>(), weight = weight.data<T>(), mean = mean.data<Compute<T>>(),
                 rstd = rstd.data<Compute<T>>(), dy = dy.data<T>(), dx = dx.data<T>(),
                 rows = x.shape().rows(), cols = x.shape().cols(), accumulate] {
          for (int64_t i = 0; i < rows; ++i) {
            const T* x_row = x + i * cols;
            const T* dy_row = dy + i * cols;
            double sum = 0.0;             // of the gradients of the normalised elements
            double sum_normalized = 0.0;  // of the same times those elements
            for (int64_t j = 0; j < cols; ++j) {
              const Compute<T> gradient = widened(dy_row[j]) * widened(weight[j]);
              sum += gradient;
              sum_normalized += gradient * ((widened(x_row[j]) - mean[i]) * rstd[i]);
            }
            const auto mean_gradient = static_cast<Compute<T>>(sum / static_cast<double>(cols));
            const auto mean_normalized =
                static_cast<Compute<T>>(sum_normalized / static_cast<double>(cols));
            for (int64_t j = 0; j < cols; ++j) {
              const Compute<T> normalized = (widened(x_row[j]) - mean[i]) * rstd[i];
              const Compute<T> gradient = (widened(dy_row[j]) * widened(weight[j]) - mean_gradient -
                                           normalized * mean_normalized) *
                                          rstd[i];
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
  if (dweight.defined()) {
    with_float_types(dy.dtype(), dweight.dtype(), [&]<typename T, typename Out>(T, Out) {
      plain::launch(
          stream, [x = x.data<T>(), mean = mean.data<Compute<T>>(), rstd = rstd.data<Compute<T>>(),
                   dy = dy.data<T>(), dweight = dweight.data<Out>(), accumulate_weight,
                   rows = x.shape().rows(), cols = x.shape().cols()] {
            std::vector<Compute<T>> sums(cols);
            for (int64_t i = 0; i < rows; ++i) {
              for (int64_t j = 0; j < cols; ++j) {
                const int64_t at = i * cols + j;
                sums[j] += widened(dy[at]) * ((widened(x[at]) - mean[i]) * rstd[i]);
              }
            }
            for (int64_t j = 0; j < cols; ++j) {
              plain::store(dweight[j], sums[j], accumulate_weight);
            }
          });
    });
  }
  if (dbias.defined()) {
    PlainBackend::sum_rows(stream, dy, dbias, accumulate_bias);
  }
}

}  // namespace zerolab

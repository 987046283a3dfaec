#include <algorithm>
#include <cmath>

#include "framework/onednn/kernel.h"
#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/vector.h"

namespace zerolab {

using onednn::broadcast;
using onednn::elements;
using onednn::floats;
using onednn::for_vectors;
using onednn::launch_chunks;
using onednn::put;
using onednn::Vector;
using onednn::with_type;

namespace {

/// The sum of `term(j, lanes)` over a row's vectors, in four interleaved sums that are then added.
template <typename Term>
float sum_of_row(int64_t cols, Term&& term) {
  Vector sums[4] = {};
  for_vectors(0, cols, [&](int64_t j, auto lanes) {
    sums[j / onednn::kLanes % 4] += lanes.keep(term(j, lanes));
  });
  return onednn::sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

}  // namespace

void OnednnBackend::layer_norm_forward(Stream& stream, const Tensor& x, const Tensor& weight,
                                       const Tensor& bias, double epsilon, const Tensor& out,
                                       const Tensor& mean, const Tensor& rstd) {
  const int64_t cols = x.shape().cols();
  with_type(x.dtype(), [&]<typename T>(T) {
    launch_chunks(
        stream, x.shape().rows(), onednn::row_grain(cols),
        [x = elements<T>(x), weight = elements<T>(weight), bias = elements<T>(bias),
         out = elements<T>(out), mean = floats(mean), rstd = floats(rstd), cols,
         epsilon](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const T* row = x + i * cols;
            const float row_mean =
                sum_of_row(cols, [&](int64_t j, auto lanes) { return lanes.load(row + j); }) /
                static_cast<float>(cols);
            const float squares = sum_of_row(cols, [&](int64_t j, auto lanes) {
              const Vector difference = lanes.load(row + j) - row_mean;
              return difference * difference;
            });
            const auto row_rstd = static_cast<float>(
                1.0 /
                std::sqrt(static_cast<double>(squares) / static_cast<double>(cols) + epsilon));
            mean[i] = row_mean;
            rstd[i] = row_rstd;
            for_vectors(0, cols, [&](int64_t j, auto lanes) {
              const Vector normalized = (lanes.load(row + j) - row_mean) * row_rstd;
              const Vector shift = bias == nullptr ? Vector{} : lanes.load(bias + j);
              lanes.store(out + i * cols + j, normalized * lanes.load(weight + j) + shift);
            });
          }
        });
  });
}

void OnednnBackend::layer_norm_backward_input(Stream& stream, const Tensor& x, const Tensor& weight,
                                              const Tensor& mean, const Tensor& rstd,
                                              const Tensor& dy, const Tensor& dx, bool accumulate) {
  const int64_t cols = x.shape().cols();
  with_type(x.dtype(), [&]<typename T>(T) {
    launch_chunks(
        stream, x.shape().rows(), onednn::row_grain(cols),
        [x = elements<T>(x), weight = elements<T>(weight), mean = floats(mean), rstd = floats(rstd),
         dy = elements<T>(dy), dx = elements<T>(dx), cols, accumulate](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const T* x_row = x + i * cols;
            const T* dy_row = dy + i * cols;
            const auto gradient = [&](int64_t j, auto lanes) {
              return lanes.load(dy_row + j) * lanes.load(weight + j);
            };
            const auto normalized = [&](int64_t j, auto lanes) {
              return (lanes.load(x_row + j) - mean[i]) * rstd[i];
            };
            const auto count = static_cast<float>(cols);
            const float mean_gradient = sum_of_row(cols, gradient) / count;
            const float mean_normalized =
                sum_of_row(cols,
                           [&](int64_t j, auto lanes) {
                             return gradient(j, lanes) * normalized(j, lanes);
                           }) /
                count;
            for_vectors(0, cols, [&](int64_t j, auto lanes) {
              const Vector centred =
                  gradient(j, lanes) - mean_gradient - normalized(j, lanes) * mean_normalized;
              put(lanes, dx + i * cols + j, centred * rstd[i], accumulate);
            });
          }
        });
  });
}

void OnednnBackend::layer_norm_backward_parameters(Stream& stream, const Tensor& x,
                                                   const Tensor& mean, const Tensor& rstd,
                                                   const Tensor& dy, const Tensor& dweight,
                                                   bool accumulate_weight, const Tensor& dbias,
                                                   bool accumulate_bias) {
  with_type(x.dtype(), [&]<typename T>(T) {
    launch_chunks(stream, x.shape().cols(), onednn::kColumns,
                  [x = elements<T>(x), mean = floats(mean), rstd = floats(rstd),
                   dy = elements<T>(dy), dweight = onednn::ParameterGradient(dweight),
                   accumulate_weight, dbias = onednn::ParameterGradient(dbias), accumulate_bias,
                   rows = x.shape().rows(), cols = x.shape().cols()](int64_t first, int64_t last) {
                    for (int64_t begin = first; begin < last; begin += onednn::kColumns) {
                      const int64_t end = std::min(begin + onednn::kColumns, last);
                      Vector weight_sums[onednn::kColumnVectors] = {};
                      Vector bias_sums[onednn::kColumnVectors] = {};
                      for (int64_t i = 0; i < rows; ++i) {
                        for_vectors(begin, end, [&](int64_t j, auto lanes) {
                          const int64_t at = (j - begin) / onednn::kLanes;
                          const Vector gradient = lanes.load(dy + i * cols + j);
                          weight_sums[at] +=
                              gradient * ((lanes.load(x + i * cols + j) - mean[i]) * rstd[i]);
                          bias_sums[at] += gradient;
                        });
                      }
                      for_vectors(begin, end, [&](int64_t j, auto lanes) {
                        const int64_t at = (j - begin) / onednn::kLanes;
                        if (dweight.defined()) {
                          dweight.put(lanes, j, weight_sums[at], accumulate_weight);
                        }
                        if (dbias.defined()) {
                          dbias.put(lanes, j, bias_sums[at], accumulate_bias);
                        }
                      });
                    }
                  });
  });
}

}  // namespace zerolab

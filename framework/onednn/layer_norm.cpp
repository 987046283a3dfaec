#include <algorithm>
#include <cmath>

#include "framework/onednn/kernel.h"
#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/vector.h"

namespace zerolab {

using onednn::broadcast;
using onednn::floats;
using onednn::for_vectors;
using onednn::launch_chunks;
using onednn::put;
using onednn::Vector;

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
  launch_chunks(
      stream, x.shape().rows(), onednn::row_grain(cols),
      [x = floats(x), weight = floats(weight), bias = floats(bias), out = floats(out),
       mean = floats(mean), rstd = floats(rstd), cols, epsilon](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const float* row = x + i * cols;
          const float row_mean =
              sum_of_row(cols, [&](int64_t j, auto lanes) { return lanes.load(row + j); }) /
              static_cast<float>(cols);
          const float squares = sum_of_row(cols, [&](int64_t j, auto lanes) {
            const Vector difference = lanes.load(row + j) - row_mean;
            return difference * difference;
          });
          const auto row_rstd = static_cast<float>(
              1.0 / std::sqrt(static_cast<double>(squares) / static_cast<double>(cols) + epsilon));
          mean[i] = row_mean;
          rstd[i] = row_rstd;
          for_vectors(0, cols, [&](int64_t j, auto lanes) {
            const Vector normalized = (lanes.load(row + j) - row_mean) * row_rstd;
            const Vector shift = bias == nullptr ? Vector{} : lanes.load(bias + j);
            lanes.store(out + i * cols + j, normalized * lanes.load(weight + j) + shift);
          });
        }
      });
}

void OnednnBackend::layer_norm_backward_input(Stream& stream, const Tensor& x, const Tensor& weight,
                                              const Tensor& mean, const Tensor& rstd,
                                              const Tensor& dy, const Tensor& dx, bool accumulate) {
  const int64_t cols = x.shape().cols();
  launch_chunks(stream, x.shape().rows(), onednn::row_grain(cols),
                [x = floats(x), weight = floats(weight), mean = floats(mean), rstd = floats(rstd),
                 dy = floats(dy), dx = floats(dx), cols, accumulate](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    const float* x_row = x + i * cols;
                    const float* dy_row = dy + i * cols;
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
                      const Vector centred = gradient(j, lanes) - mean_gradient -
                                             normalized(j, lanes) * mean_normalized;
                      put(lanes, dx + i * cols + j, centred * rstd[i], accumulate);
                    });
                  }
                });
}

void OnednnBackend::layer_norm_backward_parameters(Stream& stream, const Tensor& x,
                                                   const Tensor& mean, const Tensor& rstd,
                                                   const Tensor& dy, const Tensor& dweight,
                                                   bool accumulate_weight, const Tensor& dbias,
                                                   bool accumulate_bias) {
  // A block of columns is summed in registers, down all rows.
  constexpr int64_t kVectors = 8;
  constexpr int64_t kBlock = kVectors * onednn::kLanes;
  launch_chunks(
      stream, x.shape().cols(), kBlock,
      [x = floats(x), mean = floats(mean), rstd = floats(rstd), dy = floats(dy),
       dweight = floats(dweight), accumulate_weight, dbias = floats(dbias), accumulate_bias,
       rows = x.shape().rows(), cols = x.shape().cols()](int64_t first, int64_t last) {
        for (int64_t begin = first; begin < last; begin += kBlock) {
          const int64_t end = std::min(begin + kBlock, last);
          Vector weight_sums[kVectors] = {};
          Vector bias_sums[kVectors] = {};
          for (int64_t i = 0; i < rows; ++i) {
            for_vectors(begin, end, [&](int64_t j, auto lanes) {
              const int64_t at = (j - begin) / onednn::kLanes;
              const Vector gradient = lanes.load(dy + i * cols + j);
              weight_sums[at] += gradient * ((lanes.load(x + i * cols + j) - mean[i]) * rstd[i]);
              bias_sums[at] += gradient;
            });
          }
          for_vectors(begin, end, [&](int64_t j, auto lanes) {
            const int64_t at = (j - begin) / onednn::kLanes;
            if (dweight != nullptr) {
              put(lanes, dweight + j, weight_sums[at], accumulate_weight);
            }
            if (dbias != nullptr) {
              put(lanes, dbias + j, bias_sums[at], accumulate_bias);
            }
          });
        }
      });
}

}  // namespace zerolab

#include <algorithm>
#include <cmath>

#include "framework/plain/kernel.h"
#include "framework/plain/plain_backend.h"

namespace zerolab {

void PlainBackend::softmax_forward(Stream& stream, const Tensor& x, const Tensor& out) {
  with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [x = x.data<T>(), out = out.data<T>(), rows = out.shape().rows(),
                           cols = out.shape().cols()] {
      for (int64_t row = 0; row < rows; ++row) {
        const T* from = x + row * cols;
        Compute<T> largest = widened(from[0]);
        for (int64_t j = 1; j < cols; ++j) {
          largest = std::max<Compute<T>>(largest, widened(from[j]));
        }
        Compute<T> sum = 0;
        for (int64_t j = 0; j < cols; ++j) {
          sum += std::exp(widened(from[j]) - largest);
        }
        for (int64_t j = 0; j < cols; ++j) {
          plain::store(out[row * cols + j], std::exp(widened(from[j]) - largest) / sum, false);
        }
      }
    });
  });
}

void PlainBackend::softmax_backward(Stream& stream, const Tensor& out, const Tensor& dy,
                                    const Tensor& dx, bool accumulate) {
  with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [out = out.data<T>(), dy = dy.data<T>(), dx = dx.data<T>(),
                           rows = out.shape().rows(), cols = out.shape().cols(), accumulate] {
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t at = row * cols;
        Compute<T> mean = 0;  // of the gradients, weighted with the softmax
        for (int64_t j = 0; j < cols; ++j) {
          mean += widened(out[at + j]) * widened(dy[at + j]);
        }
        for (int64_t j = 0; j < cols; ++j) {
          plain::store(dx[at + j], widened(out[at + j]) * (widened(dy[at + j]) - mean), accumulate);
        }
      }
    });
  });
}

}  // namespace zerolab

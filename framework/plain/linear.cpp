#include <vector>

#include "framework/kernels/weight_layout.h"
#include "framework/plain/kernel.h"
#include "framework/plain/plain_backend.h"

namespace zerolab {
namespace {

/// A matrix in memory, or the transpose of one: element (i, j) is at i * row_stride + j *
/// col_stride.
template <typename T>
struct Matrix {
  const T* data;
  int64_t row_stride;
  int64_t col_stride;
};

template <typename T>
Matrix<T> matrix_of(const T* data, int64_t cols, bool transposed) {
  return transposed ? Matrix<T>{data, 1, cols} : Matrix<T>{data, cols, 1};
}

/// out [rows, cols] (+)= a [rows, inner] · b [inner, cols] (+ bias).
template <typename T, typename Out>
void multiply(int64_t rows, int64_t inner, int64_t cols, Matrix<T> a, Matrix<T> b, const T* bias,
              Out* out, bool accumulate) {
  std::vector<Compute<T>> sums(cols);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      sums[j] = bias == nullptr ? 0 : widened(bias[j]);
    }
    for (int64_t k = 0; k < inner; ++k) {
      const Compute<T> factor = widened(a.data[i * a.row_stride + k * a.col_stride]);
      const T* row = b.data + k * b.row_stride;
      for (int64_t j = 0; j < cols; ++j) {
        sums[j] += factor * widened(row[j * b.col_stride]);
      }
    }
    for (int64_t j = 0; j < cols; ++j) {
      plain::store(out[i * cols + j], sums[j], accumulate);
    }
  }
}

}  // namespace

void PlainBackend::linear_forward(Stream& stream, const Tensor& x, const Tensor& weight,
                                  WeightLayout layout, const Tensor& bias, const Tensor& out) {
  with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [x = x.data<T>(), weight = weight.data<T>(), bias = bias.data<T>(),
                           out = out.data<T>(), rows = x.shape().rows(), in = x.shape().cols(),
                           columns = out.shape().cols(), layout] {
      const bool transposed = layout == WeightLayout::kOutIn;
      multiply(rows, in, columns, matrix_of<T>(x, in, false),
               matrix_of<T>(weight, transposed ? in : columns, transposed), bias, out, false);
    });
  });
}

void PlainBackend::linear_backward_input(Stream& stream, const Tensor& dy, const Tensor& weight,
                                         WeightLayout layout, const Tensor& dx, bool accumulate) {
  with_float_type(dx.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [dy = dy.data<T>(), weight = weight.data<T>(), dx = dx.data<T>(),
                           rows = dy.shape().rows(), in = dx.shape().cols(),
                           columns = dy.shape().cols(), layout, accumulate] {
      const bool transposed = layout == WeightLayout::kInOut;
      multiply<T>(rows, columns, in, matrix_of<T>(dy, columns, false),
                  matrix_of<T>(weight, transposed ? columns : in, transposed), nullptr, dx,
                  accumulate);
    });
  });
}

void PlainBackend::linear_backward_weight(Stream& stream, const Tensor& x, const Tensor& dy,
                                          WeightLayout layout, const Tensor& dweight,
                                          bool accumulate) {
  with_float_types(dy.dtype(), dweight.dtype(), [&]<typename T, typename Out>(T, Out) {
    plain::launch(stream, [x = x.data<T>(), dy = dy.data<T>(), dweight = dweight.data<Out>(),
                           rows = x.shape().rows(), in = x.shape().cols(),
                           columns = dy.shape().cols(), layout, accumulate] {
      if (layout == WeightLayout::kInOut) {
        multiply<T>(in, rows, columns, matrix_of<T>(x, in, true), matrix_of<T>(dy, columns, false),
                    nullptr, dweight, accumulate);
      } else {
        multiply<T>(columns, rows, in, matrix_of<T>(dy, columns, true), matrix_of<T>(x, in, false),
                    nullptr, dweight, accumulate);
      }
    });
  });
}

void PlainBackend::sum_rows(Stream& stream, const Tensor& x, const Tensor& out, bool accumulate) {
  with_float_types(x.dtype(), out.dtype(), [&]<typename T, typename Out>(T, Out) {
    plain::launch(stream, [x = x.data<T>(), out = out.data<Out>(), numel = x.numel(),
                           cols = out.numel(), accumulate] {
      std::vector<Compute<T>> sums(cols);
      for (int64_t i = 0; i < numel; ++i) {
        sums[i % cols] += widened(x[i]);
      }
      for (int64_t j = 0; j < cols; ++j) {
        plain::store(out[j], sums[j], accumulate);
      }
    });
  });
}

}  // namespace zerolab

#include <limits>

#include "framework/onednn/kernel.h"
#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/vector_math.h"

namespace zerolab {

using onednn::elements;
using onednn::for_vectors;
using onednn::Vector;
using onednn::with_type;

void OnednnBackend::softmax_forward(Stream& stream, const Tensor& x, const Tensor& out) {
  const int64_t cols = out.shape().cols();
  with_type(out.dtype(), [&]<typename T>(T) {
    onednn::launch_chunks(
        stream, out.shape().rows(), onednn::row_grain(cols),
        [x = elements<T>(x), out = elements<T>(out), cols](int64_t begin, int64_t end) {
          const Vector lowest = onednn::broadcast(-std::numeric_limits<float>::infinity());
          for (int64_t row = begin; row < end; ++row) {
            const T* from = x + row * cols;
            Vector largest_lanes = lowest;
            for_vectors(0, cols, [&](int64_t j, auto lanes) {
              largest_lanes =
                  onednn::maximum(lanes.keep(lanes.load(from + j), lowest), largest_lanes);
            });
            const float largest = onednn::largest_of(largest_lanes);
            Vector sums = {};
            for_vectors(0, cols, [&](int64_t j, auto lanes) {
              sums += lanes.keep(onednn::exp(lanes.load(from + j) - largest));
            });
            const float sum = onednn::sum_of(sums);
            for_vectors(0, cols, [&](int64_t j, auto lanes) {
              lanes.store(out + row * cols + j, onednn::exp(lanes.load(from + j) - largest) / sum);
            });
          }
        });
  });
}

void OnednnBackend::softmax_backward(Stream& stream, const Tensor& out, const Tensor& dy,
                                     const Tensor& dx, bool accumulate) {
  const int64_t cols = out.shape().cols();
  with_type(out.dtype(), [&]<typename T>(T) {
    onednn::launch_chunks(stream, out.shape().rows(), onednn::row_grain(cols),
                          [out = elements<T>(out), dy = elements<T>(dy), dx = elements<T>(dx), cols,
                           accumulate](int64_t begin, int64_t end) {
                            for (int64_t row = begin; row < end; ++row) {
                              const int64_t at = row * cols;
                              Vector sums = {};
                              for_vectors(0, cols, [&](int64_t j, auto lanes) {
                                sums += lanes.load(out + at + j) * lanes.load(dy + at + j);
                              });
                              const float mean = onednn::sum_of(sums);
                              for_vectors(0, cols, [&](int64_t j, auto lanes) {
                                const Vector gradient =
                                    lanes.load(out + at + j) * (lanes.load(dy + at + j) - mean);
                                onednn::put(lanes, dx + at + j, gradient, accumulate);
                              });
                            }
                          });
  });
}

}  // namespace zerolab

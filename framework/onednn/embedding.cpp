#include <algorithm>
#include <span>
#include <type_traits>
#include <vector>

#include "framework/onednn/kernel.h"
#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/vector.h"

namespace zerolab {

using onednn::elements;
using onednn::Vector;

namespace {

/// The positions of each index.
class Occurrences {
 public:
  Occurrences(const int32_t* indices, int64_t count, int64_t bound)
      : starts_(bound + 1), positions_(count) {
    for (int64_t at = 0; at < count; ++at) {
      ++starts_[indices[at]];
    }
    int64_t end = 0;
    for (int64_t& start : starts_) {
      start = end += start;
    }
    // From the ends of the ranges back to their starts.
    for (int64_t at = count - 1; at >= 0; --at) {
      positions_[--starts_[indices[at]]] = at;
    }
  }

  /// In ascending order.
  std::span<const int64_t> of(int64_t index) const {
    return {positions_.data() + starts_[index], positions_.data() + starts_[index + 1]};
  }

 private:
  std::vector<int64_t> starts_;
  std::vector<int64_t> positions_;
};

}  // namespace

void OnednnBackend::embedding_forward(Stream& stream, const Tensor& indices, const Tensor& table,
                                      const Tensor& out) {
  const int64_t cols = table.shape().cols();
  static_cast<CpuStream&>(stream).launch(
      [indices = indices.data<int32_t>(), count = indices.numel(), rows = table.shape()[0]] {
        onednn::require_within(indices, count, rows, "embedding");
      });
  onednn::with_type(table.dtype(), [&]<typename T>(T) {
    onednn::launch_chunks(stream, indices.numel(), onednn::row_grain(cols),
                          [indices = indices.data<int32_t>(), table = elements<T>(table), cols,
                           out = elements<T>(out)](int64_t begin, int64_t end) {
                            for (int64_t i = begin; i < end; ++i) {
                              std::copy_n(table + indices[i] * cols, cols, out + i * cols);
                            }
                          });
  });
}

void OnednnBackend::embedding_backward(Stream& stream, const Tensor& indices, const Tensor& dy,
                                       const Tensor& dtable, bool accumulate) {
  if (!accumulate) {
    fill(stream, dtable, 0.0);
  }
  // Threads share the columns, so that each element's terms are added in index order.
  onednn::with_types(dy.dtype(), dtable.dtype(), [&]<typename T, typename Gradient>(T, Gradient) {
    static_cast<CpuStream&>(stream).launch([threads = onednn::threads_for(stream),
                                            indices = indices.data<int32_t>(),
                                            count = indices.numel(), dy = elements<T>(dy),
                                            dtable = elements<Gradient>(dtable),
                                            rows = dtable.shape()[0],
                                            cols = dtable.shape().cols()] {
      if constexpr (std::is_same_v<Gradient, float>) {
        onednn::parallel_chunks(threads, cols, onednn::kColumns, [&](int64_t begin, int64_t end) {
          for (int64_t i = 0; i < count; ++i) {
            const T* source = dy + i * cols;
            float* row = dtable + indices[i] * cols;
            onednn::for_vectors(begin, end, [&](int64_t j, auto lanes) {
              onednn::put(lanes, row + j, lanes.load(source + j), true);
            });
          }
        });
      } else {
        // Index by index, so that a sum in fp32 is rounded once.
        const Occurrences occurrences(indices, count, rows);
        onednn::parallel_chunks(threads, cols, onednn::kColumns, [&](int64_t begin, int64_t end) {
          for (int64_t index = 0; index < rows; ++index) {
            const auto positions = occurrences.of(index);
            if (positions.empty()) {
              continue;
            }
            onednn::for_vectors(begin, end, [&](int64_t j, auto lanes) {
              Gradient* out = dtable + index * cols + j;
              Vector sum = lanes.load(out);
              for (const int64_t position : positions) {
                sum += lanes.load(dy + position * cols + j);
              }
              lanes.store(out, sum);
            });
          }
        });
      }
    });
  });
}

}  // namespace zerolab

#include <algorithm>
#include <vector>

#include "framework/onednn/kernel.h"
#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/vector.h"

namespace zerolab {

using onednn::elements;
using onednn::Vector;

namespace {

/// The positions of each index, in their order: those of index i are positions[starts[i]] up to
/// positions[starts[i + 1]].
struct Occurrences {
  Occurrences(const int32_t* indices, int64_t count, int64_t bound)
      : starts(bound + 1), positions(count) {
    for (int64_t at = 0; at < count; ++at) {
      ++starts[indices[at]];
    }
    int64_t end = 0;
    for (int64_t& start : starts) {
      start = end += start;
    }
    // From the ends of the ranges back to their starts.
    for (int64_t at = count - 1; at >= 0; --at) {
      positions[--starts[indices[at]]] = at;
    }
  }

  std::vector<int64_t> starts;
  std::vector<int64_t> positions;
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
  // Threads share the columns. A row's terms are added in index order, in registers, so that the
  // sum is rounded once.
  onednn::with_type(dy.dtype(), [&]<typename T>(T) {
    static_cast<CpuStream&>(stream).launch(
        [threads = onednn::threads_for(stream), indices = indices.data<int32_t>(),
         count = indices.numel(), dy = elements<T>(dy), dtable = onednn::ParameterGradient(dtable),
         rows = dtable.shape()[0], cols = dtable.shape().cols(), accumulate] {
          const Occurrences occurrences(indices, count, rows);
          const auto add_row = [&](int64_t row, int64_t begin, int64_t end) {
            Vector sums[onednn::kColumnVectors] = {};
            if (accumulate) {
              onednn::for_vectors(begin, end, [&, sum = sums](int64_t j, auto lanes) mutable {
                *sum++ = dtable.load(lanes, row * cols + j);
              });
            }
            for (int64_t i = occurrences.starts[row]; i < occurrences.starts[row + 1]; ++i) {
              const T* source = dy + occurrences.positions[i] * cols;
              onednn::for_vectors(begin, end, [&, sum = sums](int64_t j, auto lanes) mutable {
                *sum++ += lanes.load(source + j);
              });
            }
            onednn::for_vectors(begin, end, [&, sum = sums](int64_t j, auto lanes) mutable {
              dtable.put(lanes, row * cols + j, *sum++, false);
            });
          };
          onednn::parallel_chunks(
              threads, cols, onednn::kColumns, [&](int64_t first, int64_t last) {
                for (int64_t row = 0; row < rows; ++row) {
                  if (accumulate && occurrences.starts[row] == occurrences.starts[row + 1]) {
                    continue;
                  }
                  for (int64_t begin = first; begin < last; begin += onednn::kColumns) {
                    add_row(row, begin, std::min(begin + onednn::kColumns, last));
                  }
                }
              });
        });
  });
}

}  // namespace zerolab

#include <algorithm>

#include "framework/onednn/kernel.h"
#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/vector.h"

namespace zerolab {

using onednn::floats;

void OnednnBackend::embedding_forward(Stream& stream, const Tensor& indices, const Tensor& table,
                                      const Tensor& out) {
  const int64_t cols = table.shape().cols();
  static_cast<CpuStream&>(stream).launch(
      [indices = indices.data<int32_t>(), count = indices.numel(), rows = table.shape()[0]] {
        onednn::require_within(indices, count, rows, "embedding");
      });
  onednn::launch_chunks(stream, indices.numel(), onednn::row_grain(cols),
                        [indices = indices.data<int32_t>(), table = floats(table), cols,
                         out = floats(out)](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            std::copy_n(table + indices[i] * cols, cols, out + i * cols);
                          }
                        });
}

void OnednnBackend::embedding_backward(Stream& stream, const Tensor& indices, const Tensor& dy,
                                       const Tensor& dtable, bool accumulate) {
  if (!accumulate) {
    fill(stream, dtable, 0.0);
  }
  // Threads share the columns, so that each element's terms are added in index order.
  constexpr int64_t kColumns = 128;
  onednn::launch_chunks(
      stream, dtable.shape().cols(), kColumns,
      [indices = indices.data<int32_t>(), count = indices.numel(), dy = floats(dy),
       dtable = floats(dtable), cols = dtable.shape().cols()](int64_t begin, int64_t end) {
        for (int64_t i = 0; i < count; ++i) {
          const float* source = dy + i * cols;
          float* row = dtable + indices[i] * cols;
          onednn::for_vectors(begin, end, [&](int64_t j, auto lanes) {
            onednn::put(lanes, row + j, lanes.load(source + j), true);
          });
        }
      });
}

}  // namespace zerolab

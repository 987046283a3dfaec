#include <algorithm>

#include "framework/core/error.h"
#include "framework/plain/kernel.h"
#include "framework/plain/plain_backend.h"

namespace zerolab {

void PlainBackend::embedding_forward(Stream& stream, const Tensor& indices, const Tensor& table,
                                     const Tensor& out) {
  plain::with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [indices = indices.data<int32_t>(), count = indices.numel(),
                           table = table.data<T>(), vocabulary = table.shape()[0],
                           cols = table.shape()[1], out = out.data<T>()] {
      for (int64_t i = 0; i < count; ++i) {
        require(indices[i] >= 0 && indices[i] < vocabulary, "embedding",
                "an index is outside the table; got {}, expected within [0, {})", indices[i],
                vocabulary);
        std::copy_n(table + indices[i] * cols, cols, out + i * cols);
      }
    });
  });
}

void PlainBackend::embedding_backward(Stream& stream, const Tensor& indices, const Tensor& dy,
                                      const Tensor& dtable, bool accumulate) {
  plain::with_float_type(dy.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [indices = indices.data<int32_t>(), count = indices.numel(),
                           dy = dy.data<T>(), dtable = dtable.data<T>(), numel = dtable.numel(),
                           cols = dtable.shape().cols(), accumulate] {
      if (!accumulate) {
        std::fill_n(dtable, numel, T(0));
      }
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t j = 0; j < cols; ++j) {
          dtable[indices[i] * cols + j] += dy[i * cols + j];
        }
      }
    });
  });
}

}  // namespace zerolab

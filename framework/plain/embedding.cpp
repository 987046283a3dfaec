#include <algorithm>
#include <vector>

#include "framework/core/error.h"
#include "framework/plain/kernel.h"
#include "framework/plain/plain_backend.h"

namespace zerolab {

void PlainBackend::embedding_forward(Stream& stream, const Tensor& indices, const Tensor& table,
                                     const Tensor& out) {
  with_float_type(out.dtype(), [&]<typename T>(T) {
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
  with_float_types(dy.dtype(), dtable.dtype(), [&]<typename T, typename Out>(T, Out) {
    plain::launch(stream, [indices = indices.data<int32_t>(), count = indices.numel(),
                           dy = dy.data<T>(), dtable = dtable.data<Out>(),
                           vocabulary = dtable.shape()[0], cols = dtable.shape()[1], accumulate] {
      // Which indices name a row, as lists in their order: the sum of a row is rounded once.
      std::vector<int64_t> first(vocabulary, -1);
      std::vector<int64_t> next(count);
      for (int64_t i = count - 1; i >= 0; --i) {
        next[i] = first[indices[i]];
        first[indices[i]] = i;
      }
      std::vector<Compute<T, Out>> sums(cols);
      for (int64_t row = 0; row < vocabulary; ++row) {
        for (int64_t j = 0; j < cols; ++j) {
          sums[j] = accumulate ? widened(dtable[row * cols + j]) : 0;
        }
        for (int64_t i = first[row]; i >= 0; i = next[i]) {
          for (int64_t j = 0; j < cols; ++j) {
            sums[j] += widened(dy[i * cols + j]);
          }
        }
        for (int64_t j = 0; j < cols; ++j) {
          plain::store(dtable[row * cols + j], sums[j], false);
        }
      }
    });
  });
}

}  // namespace zerolab

#include "framework/kernels/strided_copy.h"

#include "framework/plain/kernel.h"
#include "framework/plain/plain_backend.h"

namespace zerolab {

void PlainBackend::copy_strided(Stream& stream, const Tensor& source, const StridedCopy& copy,
                                const Tensor& out, bool accumulate) {
  with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [source = source.data<T>(), copy, out = out.data<T>(), accumulate] {
      for (int64_t i = 0; i < copy.numel(); ++i) {
        int64_t rest = i;
        int64_t from = copy.source.offset;
        int64_t to = copy.out.offset;
        for (int loop = 3; loop >= 0; --loop) {
          const int64_t index = rest % copy.extents[loop];
          rest /= copy.extents[loop];
          from += index * copy.source.strides[loop];
          to += index * copy.out.strides[loop];
        }
        plain::store(out[to], widened(source[from]), accumulate);
      }
    });
  });
}

}  // namespace zerolab

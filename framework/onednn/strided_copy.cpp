#include "framework/kernels/strided_copy.h"

#include "framework/onednn/kernel.h"
#include "framework/onednn/onednn_backend.h"
#include "framework/plain/kernel.h"

namespace zerolab {
namespace {

int64_t place_of(const StridedCopy::Walk& walk, int64_t first, int64_t second, int64_t third) {
  return walk.offset + first * walk.strides[0] + second * walk.strides[1] + third * walk.strides[2];
}

/// The innermost loop: in vectors where both sides are rows.
template <typename T>
void copy_row(const T* source, int64_t source_stride, T* out, int64_t out_stride, int64_t count,
              bool accumulate) {
  if (source_stride == 1 && out_stride == 1) {
    onednn::for_vectors(0, count, [&](int64_t i, auto lanes) {
      onednn::put(lanes, out + i, lanes.load(source + i), accumulate);
    });
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    plain::store(out[i * out_stride], widened(source[i * source_stride]), accumulate);
  }
}

}  // namespace

void OnednnBackend::copy_strided(Stream& stream, const Tensor& source, const StridedCopy& copy,
                                 const Tensor& out, bool accumulate) {
  const int64_t count = copy.extents[3];
  if (copy.numel() == 0) {
    return;
  }
  onednn::with_type(out.dtype(), [&]<typename T>(T) {
    onednn::launch_chunks(
        stream, copy.numel() / count, onednn::row_grain(count),
        [source = onednn::elements<T>(source), copy, out = onednn::elements<T>(out), count,
         accumulate](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row) {
            const int64_t third = row % copy.extents[2];
            const int64_t second = row / copy.extents[2] % copy.extents[1];
            const int64_t first = row / copy.extents[2] / copy.extents[1];
            copy_row(source + place_of(copy.source, first, second, third), copy.source.strides[3],
                     out + place_of(copy.out, first, second, third), copy.out.strides[3], count,
                     accumulate);
          }
        });
  });
}

}  // namespace zerolab

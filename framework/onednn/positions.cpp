#include "framework/onednn/kernel.h"
#include "framework/onednn/onednn_backend.h"

namespace zerolab {

void OnednnBackend::mean_positions(Stream& stream, const Tensor& x, const Tensor& out) {
  const int64_t positions = x.shape()[1];
  const int64_t cols = x.shape()[2];
  onednn::with_type(out.dtype(), [&]<typename T>(T) {
    onednn::launch_chunks(stream, x.shape()[0], onednn::row_grain(positions * cols),
                          [x = onednn::elements<T>(x), out = onednn::elements<T>(out), positions,
                           cols](int64_t begin, int64_t end) {
                            for (int64_t b = begin; b < end; ++b) {
                              const T* from = x + b * positions * cols;
                              onednn::for_vectors(0, cols, [&](int64_t j, auto lanes) {
                                onednn::Vector sum = {};
                                for (int64_t t = 0; t < positions; ++t) {
                                  sum += lanes.load(from + t * cols + j);
                                }
                                lanes.store(out + b * cols + j,
                                            sum / static_cast<float>(positions));
                              });
                            }
                          });
  });
}

}  // namespace zerolab

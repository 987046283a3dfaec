#include "framework/plain/kernel.h"
#include "framework/plain/plain_backend.h"

namespace zerolab {

void PlainBackend::mean_positions(Stream& stream, const Tensor& x, const Tensor& out) {
  with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [x = x.data<T>(), out = out.data<T>(), positions = x.shape()[1],
                           cols = x.shape()[2], numel = out.numel()] {
      for (int64_t i = 0; i < numel; ++i) {
        const T* from = x + i / cols * positions * cols + i % cols;
        Compute<T> sum = 0;
        for (int64_t t = 0; t < positions; ++t) {
          sum += widened(from[t * cols]);
        }
        plain::store(out[i], sum / static_cast<Compute<T>>(positions), false);
      }
    });
  });
}

}  // namespace zerolab

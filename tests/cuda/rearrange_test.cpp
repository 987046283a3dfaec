#include "framework/kernels/strided_copy.h"
#include "tests/cuda/both.h"

namespace zerolab {
namespace {

class CudaRearrange : public CudaKernels {};

TEST_P(CudaRearrange, StridedCopiesArePlainsToTheBit) {
  const Twin x = both.normal({3, 5, 7, 33}, dtype, "x");
  // Axes 1 and 3 exchanged, and a part of the result.
  const StridedCopy exchange = {.extents = {3, 20, 7, 5},
                                .source = {.offset = 4, .strides = {1155, 1, 33, 231}},
                                .out = {.offset = 2 * 35, .strides = {1155, 35, 5, 1}}};
  for (const bool accumulate : {false, true}) {
    const Twin out = both.normal({3, 33, 7, 5}, dtype, "out");
    both.run([&](Backend& backend, Stream& stream, auto on) {
      backend.copy_strided(stream, on(x), exchange, on(out), accumulate);
    });
    both.expect_same_bits(out);
  }
}

TEST_P(CudaRearrange, MeansOfPositionsArePlainsToTheBit) {
  const Twin x = both.normal({3, 17, 19}, dtype, "x");
  const Twin mean = both.empty({3, 19}, dtype);
  both.run([&](Backend& backend, Stream& stream, auto on) {
    backend.mean_positions(stream, on(x), on(mean));
  });
  both.expect_same_bits(mean);
}

TEST_P(CudaRearrange, SoftmaxAndSiluArePlains) {
  for (const int64_t cols : {1, 7, 300}) {
    const Twin x = both.normal({3, cols}, dtype, "x");
    const Twin dy = both.normal({3, cols}, dtype, "dy");
    const Twin softmax = both.empty({3, cols}, dtype);
    const Twin silu = both.empty({3, cols}, dtype);
    both.run([&](Backend& backend, Stream& stream, auto on) {
      backend.softmax_forward(stream, on(x), on(softmax));
      backend.silu_forward(stream, on(x), on(silu));
    });
    both.expect_close(softmax, 1e-5, 1e-6);
    both.expect_close(silu, 1e-5, 1e-6);
    const Twin saved = both.twin(softmax.plain);
    for (const bool accumulate : {false, true}) {
      const Twin dsoftmax = both.normal({3, cols}, dtype, "dsoftmax");
      const Twin dsilu = both.normal({3, cols}, dtype, "dsilu");
      both.run([&](Backend& backend, Stream& stream, auto on) {
        backend.softmax_backward(stream, on(saved), on(dy), on(dsoftmax), accumulate);
        backend.silu_backward(stream, on(x), on(dy), on(dsilu), accumulate);
      });
      both.expect_close(dsoftmax, 1e-5, 1e-5);
      both.expect_close(dsilu, 1e-5, 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, CudaRearrange, all_cases(), name_of_case);

}  // namespace
}  // namespace zerolab

#include "framework/kernels/dropout_key.h"
#include "tests/cuda/both.h"

namespace zerolab {
namespace {

class CudaDropout : public CudaKernels {};

TEST_P(CudaDropout, IsPlainsToTheBit) {
  for (const Shape& shape : {Shape{3, 64}, Shape{5, 3, 7}, Shape{1, 12}, Shape{2, 1}}) {
    const Twin x = both.normal(shape, dtype, "x");
    const Twin out = both.normal(shape, dtype, "out");
    const Twin in_place = both.normal(shape, dtype, "in_place");
    // 0.25 is exact in 24 bits, so that a uniform may equal it.
    both.run([&](Backend& backend, Stream& stream, auto on) {
      backend.dropout(stream, on(x), {123456789012345, 7, int64_t{1} << 40, 0.25}, on(out), true);
      backend.dropout(stream, on(in_place), {3, 1, 0, 0.1}, on(in_place), false);
    });
    both.expect_same_bits(out);
    both.expect_same_bits(in_place);
  }
}

TEST_P(CudaDropout, AsSampleIsTheSameOnAnyRank) {
  const Twin x = both.normal({6, 20}, dtype, "x");
  const Twin whole = both.empty({6, 20}, dtype);
  const Twin parts = both.empty({6, 20}, dtype);
  Backend& backend = *both.cuda.backend;
  backend.dropout(both.cuda.stream, x.cuda, {1, 2, 100, 0.5}, whole.cuda, false);
  for (int64_t s = 0; s < 6; s += 2) {
    const Tensor rows = x.cuda.range(s * 20, 40).view({2, 20});
    backend.dropout(both.cuda.stream, rows, {1, 2, 100 + s, 0.5},
                    parts.cuda.range(s * 20, 40).view({2, 20}), false);
  }
  EXPECT_EQ(both.cuda.to_host(whole.cuda), both.cuda.to_host(parts.cuda));
}

INSTANTIATE_TEST_SUITE_P(Dropout, CudaDropout, all_cases(), name_of_case);

}  // namespace
}  // namespace zerolab

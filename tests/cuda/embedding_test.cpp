#include <random>

#include "framework/core/error.h"
#include "tests/cuda/both.h"

namespace zerolab {
namespace {

class CudaEmbedding : public CudaKernels {
 protected:
  /// Some often, some once, some never.
  Twin indices(int64_t count, int32_t vocabulary) {
    std::mt19937 generator(count);
    std::vector<int32_t> values(count);
    for (int32_t& value : values) {
      value = static_cast<int32_t>(generator() % vocabulary * (generator() % 3) / 2);
    }
    return both.of(Shape{count}, values);
  }
};

TEST_P(CudaEmbedding, GathersRows) {
  for (const int64_t cols : {16, 13}) {
    const Twin chosen = indices(70, 31);
    const Twin table = both.normal({31, cols}, dtype, "table");
    const Twin out = both.empty({70, cols}, dtype);
    both.run([&](Backend& backend, Stream& stream, auto on) {
      backend.embedding_forward(stream, on(chosen), on(table), on(out));
    });
    both.expect_same_bits(out);
  }
}

TEST_P(CudaEmbedding, AddsRowsInIndexOrderAndRoundsOnce) {
  for (const DType out_dtype : {dtype, DType::kFloat32}) {
    for (const bool accumulate : {false, true}) {
      // More indices than a block looks through together, and more columns than it adds.
      const Twin chosen = indices(5000, 23);
      const Twin dy = both.normal({5000, 13}, dtype, "dy");
      const Twin dtable = both.normal({23, 13}, out_dtype, "dtable");
      const Twin few = indices(5, 3);
      const Twin wide_dy = both.normal({5, 1031}, dtype, "wide_dy");
      const Twin wide = both.normal({3, 1031}, out_dtype, "wide");
      both.run([&](Backend& backend, Stream& stream, auto on) {
        backend.embedding_backward(stream, on(chosen), on(dy), on(dtable), accumulate);
        backend.embedding_backward(stream, on(few), on(wide_dy), on(wide), accumulate);
      });
      both.expect_same_bits(dtable);
      both.expect_same_bits(wide);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Embedding, CudaEmbedding, all_cases(), name_of_case);

TEST(CudaEmbeddingFault, AnIndexOutsideComesOutOfEveryWait) {
  Both both;
  const Twin chosen = both.of(Shape{3}, std::vector<int32_t>{1, 31, 2});
  const Twin table = both.normal({31, 8}, DType::kFloat32, "table");
  const Twin out = both.empty({3, 8}, DType::kFloat32);
  const Event before = both.cuda.stream.record();
  before.synchronize();
  both.cuda.backend->embedding_forward(both.cuda.stream, chosen.cuda, table.cuda, out.cuda);
  const Event after = both.cuda.stream.record();
  const auto expect_fault = [](auto&& wait) {
    try {
      wait();
      FAIL() << "an index outside the table was accepted";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(),
                   "[embedding] an index is outside the table; got 31, expected within [0, 31)");
    }
  };
  expect_fault([&] { after.synchronize(); });
  expect_fault([&] { both.cuda.stream.synchronize(); });
}

}  // namespace
}  // namespace zerolab

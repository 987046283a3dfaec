#include "framework/core/error.h"
#include "tests/cuda/both.h"

namespace zerolab {
namespace {

class CudaLosses : public CudaKernels {};

TEST_P(CudaLosses, CrossEntropyIsPlains) {
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{300, 5}, {7, 603}, {1, 1}}) {
    const Twin logits = both.normal({rows, cols}, dtype, "logits");
    std::vector<int32_t> chosen(rows);
    for (int64_t i = 0; i < rows; ++i) {
      chosen[i] = static_cast<int32_t>(i * 7 % cols);
    }
    const Twin targets = both.of(Shape{rows}, chosen);
    const Twin log_sum_exp = both.empty({rows}, DType::kFloat32);
    const Twin loss = both.empty({1}, DType::kFloat32);
    const Twin dloss = both.of(Shape{1}, std::vector<float>{1.5F});
    both.run([&](Backend& backend, Stream& stream, auto on) {
      backend.cross_entropy_forward(stream, on(logits), on(targets), on(log_sum_exp), on(loss));
      backend.cross_entropy_backward(stream, on(dloss), on(targets), on(log_sum_exp), on(logits));
    });
    both.expect_close(log_sum_exp, 1e-6, 1e-6);
    both.expect_close(loss, 1e-6, 1e-6);
    both.expect_close(logits, 2e-6, dtype == DType::kFloat16 ? 0x1p-24 : 1e-8);
  }
}

TEST_P(CudaLosses, ARowsLogSumExpDoesNotDependOnWhereItLies) {
  const Twin logits = both.normal({3, 77}, dtype, "logits");
  const Twin targets = both.of(Shape{3}, std::vector<int32_t>{0, 1, 2});
  const Twin whole = both.empty({3}, DType::kFloat32);
  const Twin alone = both.empty({3}, DType::kFloat32);
  const Twin loss = both.empty({1}, DType::kFloat32);
  CudaRank& rank = both.cuda;
  rank.backend->cross_entropy_forward(rank.stream, logits.cuda, targets.cuda, whole.cuda,
                                      loss.cuda);
  for (int64_t i = 0; i < 3; ++i) {
    rank.backend->cross_entropy_forward(rank.stream, logits.cuda.range(i * 77, 77).view({1, 77}),
                                        targets.cuda.range(i, 1), alone.cuda.range(i, 1),
                                        loss.cuda);
  }
  EXPECT_EQ(rank.to_host(whole.cuda), rank.to_host(alone.cuda));
}

TEST_P(CudaLosses, MseIsPlains) {
  const Twin prediction = both.normal({2, 701}, dtype, "prediction");
  const Twin target = both.normal({2, 701}, dtype, "target");
  const Twin loss = both.empty({1}, DType::kFloat32);
  const Twin dloss = both.of(Shape{1}, std::vector<float>{3.0F});
  const Twin written = both.empty({2, 701}, dtype);
  const Twin added = both.normal({2, 701}, dtype, "added");
  both.run([&](Backend& backend, Stream& stream, auto on) {
    backend.mse_forward(stream, on(prediction), on(target), on(loss));
    backend.mse_backward(stream, on(dloss), on(prediction), on(target), on(written), false);
    backend.mse_backward(stream, on(dloss), on(prediction), on(target), on(added), true);
  });
  both.expect_close(loss, 1e-7, 0.0);
  both.expect_same_bits(written);
  both.expect_same_bits(added);
}

INSTANTIATE_TEST_SUITE_P(Losses, CudaLosses, all_cases(), name_of_case);

TEST(CudaLossFault, ATargetOutsideComesOutOfTheNextWait) {
  Both both;
  const Twin logits = both.normal({2, 5}, DType::kFloat32, "logits");
  const Twin targets = both.of(Shape{2}, std::vector<int32_t>{4, -1});
  const Twin log_sum_exp = both.empty({2}, DType::kFloat32);
  const Twin loss = both.empty({1}, DType::kFloat32);
  both.cuda.backend->cross_entropy_forward(both.cuda.stream, logits.cuda, targets.cuda,
                                           log_sum_exp.cuda, loss.cuda);
  try {
    both.cuda.stream.synchronize();
    FAIL() << "a target outside the vocabulary was accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "[cross_entropy] a target is outside the vocabulary; got -1, expected within "
                 "[0, 5)");
  }
}

}  // namespace
}  // namespace zerolab

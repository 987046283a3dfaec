#include <gtest/gtest.h>

#include <vector>

#include "framework/core/error.h"
#include "tests/framework/onednn/half_comparison.h"
#include "tests/framework/onednn/plain_comparison.h"

namespace zerolab::test::onednn {
namespace {

TEST_F(Onednn, EmbeddingIsPlainsToTheBit) {
  for (const int64_t cols : kOddSizes) {
    for (const bool accumulate : {false, true}) {
      compare(
          [&](Rank& rank) {
            std::vector<int32_t> tokens;
            for (int i = 0; i < 300; ++i) {
              tokens.push_back(i * i % 37);
            }
            const Tensor indices = rank.indices(tokens);
            const Tensor table = rank.random(Shape{41, cols}, 1);
            const Tensor out = Tensor::empty(rank.context, Shape{300, cols}, DType::kFloat32);
            const Tensor dtable = rank.random(table.shape(), 2);
            rank.backend->embedding_forward(rank.stream(), indices, table, out);
            rank.backend->embedding_backward(rank.stream(), indices, out, dtable, accumulate);
            return Outputs{out.to_host<float>(), dtable.to_host<float>()};
          },
          0.0);
    }
  }
}

TEST_F(Onednn, RefusesIndicesOutsideTheVocabulary) {
  Rank rank(make_onednn_backend(), 2);
  const Tensor table = rank.random(Shape{5, 3}, 1);
  const Tensor out = rank.random(Shape{2, 3}, 2);
  const Tensor logits = rank.random(Shape{2, 5}, 3);
  const Tensor log_sum_exp = rank.random(Shape{2}, 4);
  const Tensor loss = rank.random(Shape{1}, 5);
  for (const int32_t index : {-1, 5}) {
    const Tensor indices = rank.indices({0, index});
    EXPECT_THROW(rank.backend->embedding_forward(rank.stream(), indices, table, out), Error);
    EXPECT_THROW(
        rank.backend->cross_entropy_forward(rank.stream(), logits, indices, log_sum_exp, loss),
        Error);
  }
}

TEST_P(OnednnHalf, Embedding) {
  for (const int64_t cols : {1L, 17L, 130L, 768L}) {
    for (const bool wide_gradients : {false, true}) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(testing::Message() << cols << " " << wide_gradients << " " << accumulate);
        compare([&](TypedRank& run) {
          std::vector<int32_t> tokens;
          for (int i = 0; i < 300; ++i) {
            tokens.push_back(i * i % 37);
          }
          const Tensor indices = run.rank.indices(tokens);
          const Tensor table = run.random(Shape{41, cols}, 1);
          const Tensor out = run.random(Shape{300, cols}, 2);
          const Tensor dtable = run.random(table.shape(), 3, wide_gradients ? kFloat32 : run.type);
          run.backend().embedding_forward(run.stream(), indices, table, out);
          run.backend().embedding_backward(run.stream(), indices, run.random(out.shape(), 4),
                                           dtable, accumulate);
          return std::vector<Tensor>{out, dtable};
        });
      }
    }
  }
}

TEST_P(OnednnHalf, EmbeddingGradientsAreRoundedOnce) {
  // 1000 halves of the unit in the last place of 256 or 2048: lost one by one, not together.
  TypedRank run(half(), half(), 2);
  const float start = half() == DType::kBFloat16 ? 256.0F : 2048.0F;
  const Tensor indices = run.rank.indices(std::vector<int32_t>(1000, 1));
  const Tensor dy = Tensor::empty(run.rank.context, Shape{1000, 20}, half());
  const Tensor dtable = Tensor::empty(run.rank.context, Shape{3, 20}, half());
  run.backend().fill(run.stream(), dy, 1.0);
  run.backend().fill(run.stream(), dtable, start);
  run.backend().embedding_backward(run.stream(), indices, dy, dtable, true);
  EXPECT_EQ(values_of(dtable)[20], rounded(half(), start + 1000.0F));
  EXPECT_EQ(values_of(dtable)[19], start);
}

}  // namespace
}  // namespace zerolab::test::onednn

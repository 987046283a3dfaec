#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "framework/kernels/attention_mask.h"
#include "tests/framework/onednn/half_comparison.h"
#include "tests/framework/onednn/plain_comparison.h"

namespace zerolab::test::onednn {
namespace {

TEST_F(Onednn, AttentionAgreesWithPlain) {
  struct Sizes {
    int64_t batch, time, heads, head_size;
  };
  for (const Sizes& s :
       {Sizes{1, 1, 1, 1}, Sizes{2, 3, 3, 5}, Sizes{1, 17, 2, 16}, Sizes{2, 64, 2, 64},
        Sizes{1, 65, 2, 20}, Sizes{3, 127, 1, 33}, Sizes{1, 257, 2, 80}}) {
    for (const auto& [mask, accumulate] :
         {std::pair{AttentionMask::kCausal, false}, std::pair{AttentionMask::kCausal, true},
          std::pair{AttentionMask::kNone, false}, std::pair{AttentionMask::kNone, true}}) {
      SCOPED_TRACE(testing::Message() << s.time << " " << s.head_size << " " << accumulate << " "
                                      << static_cast<int>(mask));
      compare(
          [&, mask = mask, accumulate = accumulate](Rank& rank) {
            const int64_t cols = s.heads * s.head_size;
            const Tensor qkv = rank.random(Shape{s.batch, s.time, 3 * cols}, 1);
            const Tensor dy = rank.random(Shape{s.batch, s.time, cols}, 2);
            const Tensor out = Tensor::empty_like(dy);
            const Tensor log_sum_exp = rank.random(Shape{s.batch, s.heads, s.time}, 3);
            const Tensor dqkv = rank.random(qkv.shape(), 4);
            rank.backend->attention_forward(rank.stream(), qkv, s.heads, mask, out, log_sum_exp);
            rank.backend->attention_backward(rank.stream(), qkv, out, log_sum_exp, dy, s.heads,
                                             mask, dqkv, accumulate);
            return Outputs{out.to_host<float>(), log_sum_exp.to_host<float>(),
                           dqkv.to_host<float>()};
          },
          1e-5);
    }
  }
}

TEST_F(Onednn, AttentionOfTheLastAgreesWithPlain) {
  for (const int64_t time : kOddSizes) {
    for (const int64_t head_size : {1, 5, 16, 20, 64}) {
      SCOPED_TRACE(testing::Message() << time << " " << head_size);
      compare(
          [&](Rank& rank) {
            const int64_t heads = 3;
            const Tensor qkv = rank.random(Shape{2, time, 3 * heads * head_size}, 1);
            const Tensor out =
                Tensor::empty(rank.context, Shape{2, 1, heads * head_size}, DType::kFloat32);
            rank.backend->attention_last(rank.stream(), qkv, heads, out);
            return Outputs{out.to_host<float>()};
          },
          1e-5);
    }
  }
}

TEST_P(OnednnHalf, Attention) {
  struct Sizes {
    int64_t batch, time, heads, head_size;
  };
  for (const Sizes& s : {Sizes{1, 1, 1, 1}, Sizes{2, 3, 3, 5}, Sizes{2, 64, 2, 64},
                         Sizes{1, 65, 2, 20}, Sizes{3, 127, 1, 33}, Sizes{1, 257, 2, 80}}) {
    for (const auto& [mask, accumulate] :
         {std::pair{AttentionMask::kCausal, false}, std::pair{AttentionMask::kCausal, true},
          std::pair{AttentionMask::kNone, false}, std::pair{AttentionMask::kNone, true}}) {
      SCOPED_TRACE(testing::Message() << s.time << " " << s.head_size << " " << accumulate);
      // Where fp32 adds tile by tile to what was there, 16 bits add the sum of all tiles.
      compare(
          [&, mask = mask, accumulate = accumulate](TypedRank& run) {
            const int64_t cols = s.heads * s.head_size;
            const Tensor qkv = run.random(Shape{s.batch, s.time, 3 * cols}, 1);
            const Tensor dy = run.random(Shape{s.batch, s.time, cols}, 2);
            const Tensor out = Tensor::empty_like(dy);
            const Tensor log_sum_exp = run.random(Shape{s.batch, s.heads, s.time}, 3, kFloat32);
            const Tensor dqkv = run.random(qkv.shape(), 4);
            run.backend().attention_forward(run.stream(), qkv, s.heads, mask, out, log_sum_exp);
            run.backend().attention_backward(run.stream(), qkv, run.random(dy.shape(), 5),
                                             log_sum_exp, dy, s.heads, mask, dqkv, accumulate);
            return std::vector<Tensor>{out, log_sum_exp, dqkv};
          },
          accumulate ? 1e-6F : 0.0F);
    }
  }
}

}  // namespace
}  // namespace zerolab::test::onednn

#include <gtest/gtest.h>

#include <vector>

#include "tests/framework/onednn/half_comparison.h"
#include "tests/framework/onednn/plain_comparison.h"

namespace zerolab::test::onednn {
namespace {

TEST_F(Onednn, LossesAgreeWithPlain) {
  for (const int64_t cols : {1L, 3L, 17L, 65L, 127L, 257L, 5003L}) {
    SCOPED_TRACE(cols);
    compare(
        [&](Rank& rank) {
          Backend& backend = *rank.backend;
          constexpr int64_t kRows = 33;
          std::vector<int32_t> classes;
          for (int i = 0; i < kRows; ++i) {
            classes.push_back(i * 7 % static_cast<int>(cols));
          }
          const Tensor targets = rank.indices(classes);
          const Tensor logits = rank.random(Shape{kRows, cols}, 1, 5.0F);
          const Tensor other = rank.random(Shape{kRows, cols}, 2);
          const Tensor log_sum_exp = rank.random(Shape{kRows}, 3);
          const Tensor loss = rank.random(Shape{1}, 4);
          const Tensor squared = rank.random(Shape{1}, 5);
          const Tensor gradient = rank.random(logits.shape(), 6);
          const Tensor dloss = rank.tensor(Shape{1}, {0.7F});
          backend.mse_forward(rank.stream(), logits, other, squared);
          backend.mse_backward(rank.stream(), dloss, logits, other, gradient, cols > 17);
          backend.cross_entropy_forward(rank.stream(), logits, targets, log_sum_exp, loss);
          backend.cross_entropy_backward(rank.stream(), dloss, targets, log_sum_exp, logits);
          return Outputs{squared.to_host<float>(), gradient.to_host<float>(),
                         log_sum_exp.to_host<float>(), loss.to_host<float>(),
                         logits.to_host<float>()};
        },
        cols == 1 ? 1e-5 : 3e-6);
  }
}

TEST_F(Onednn, CrossEntropyOfExtremeLogits) {
  compare(
      [&](Rank& rank) {
        const Tensor logits =
            rank.tensor(Shape{3, 4}, {1e4F, -1e4F, 0.0F, 9e3F,                       //
                                      -kFloatInfinity, 1.0F, 2.0F, -kFloatInfinity,  //
                                      -1e4F, -1e4F, -1e4F, -1e4F});
        const Tensor targets = rank.indices({0, 2, 3});
        const Tensor log_sum_exp = rank.random(Shape{3}, 1);
        const Tensor loss = rank.random(Shape{1}, 2);
        const Tensor dloss = rank.tensor(Shape{1}, {1.0F});
        rank.backend->cross_entropy_forward(rank.stream(), logits, targets, log_sum_exp, loss);
        rank.backend->cross_entropy_backward(rank.stream(), dloss, targets, log_sum_exp, logits);
        return Outputs{log_sum_exp.to_host<float>(), loss.to_host<float>(),
                       logits.to_host<float>()};
      },
      1e-6);
}

TEST_P(OnednnHalf, Losses) {
  for (const int64_t cols : {1L, 17L, 257L, 5003L}) {
    SCOPED_TRACE(cols);
    compare([&](TypedRank& run) {
      Backend& backend = run.backend();
      constexpr int64_t kRows = 33;
      std::vector<int32_t> classes;
      for (int i = 0; i < kRows; ++i) {
        classes.push_back(i * 7 % static_cast<int>(cols));
      }
      const Tensor targets = run.rank.indices(classes);
      const Tensor logits = run.random(Shape{kRows, cols}, 1, 5.0F);
      const Tensor log_sum_exp = run.random(Shape{kRows}, 3, kFloat32);
      const Tensor loss = run.random(Shape{1}, 4, kFloat32);
      const Tensor gradient = run.random(logits.shape(), 6);
      const Tensor dloss = run.rank.tensor(Shape{1}, {700.0F});
      backend.mse_backward(run.stream(), dloss, logits, run.random(logits.shape(), 2), gradient,
                           cols > 17);
      backend.cross_entropy_forward(run.stream(), logits, targets, log_sum_exp, loss);
      backend.cross_entropy_backward(run.stream(), dloss, targets, log_sum_exp, logits);
      return std::vector<Tensor>{gradient, log_sum_exp, loss, logits};
    });
  }
}

}  // namespace
}  // namespace zerolab::test::onednn

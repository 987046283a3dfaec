#include "framework/onednn/backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/exact_sum.h"
#include "framework/core/strided_copy.h"
#include "framework/ops/rearrange.h"
#include "framework/plain/backend.h"
#include "framework/update_rules/update_rule.h"
#include "tests/framework/onednn_rank.h"
#include "tests/framework/update_states.h"

namespace zerolab {
namespace {

constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kOddSizes[] = {1, 3, 17, 65, 127, 257};

using Outputs = std::vector<std::vector<float>>;
/// Runs a kernel on a rank and gives back all that it wrote.
using PlainKernel = std::function<Outputs(Rank&)>;

class Onednn : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!onednn_is_available()) {
      GTEST_SKIP() << "built without oneDNN";
    }
  }

  static Outputs run(const PlainKernel& kernel, int threads) {
    Rank rank(make_onednn_backend(), threads);
    return kernel(rank);
  }

  /// Within tolerance * (largest of the output) of plain, and the same bits with one thread as with
  /// two.
  static void compare(const PlainKernel& kernel, double tolerance, bool same_bits = true) {
    Rank plain(make_plain_backend(), 1);
    const Outputs expected = kernel(plain);
    const Outputs got = run(kernel, 2);
    const Outputs alone = run(kernel, 1);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t output = 0; output < got.size(); ++output) {
      ASSERT_EQ(got[output].size(), expected[output].size());
      double largest = 0.0;
      double error = 0.0;
      for (size_t i = 0; i < got[output].size(); ++i) {
        ASSERT_EQ(std::isfinite(got[output][i]), std::isfinite(expected[output][i])) << i;
        largest = std::max<double>(largest, std::abs(expected[output][i]));
        error = std::max<double>(error, std::abs(got[output][i] - expected[output][i]));
      }
      EXPECT_LE(error, tolerance * largest) << "output " << output;
      if (same_bits) {
        EXPECT_EQ(0, std::memcmp(got[output].data(), alone[output].data(),
                                 got[output].size() * sizeof(float)))
            << "output " << output;
      }
    }
  }
};

TEST_F(Onednn, LinearAgreesWithPlain) {
  struct Sizes {
    int64_t rows, in, out;
  };
  for (const Sizes& s : {Sizes{1, 1, 1}, Sizes{3, 17, 5}, Sizes{65, 127, 33}, Sizes{257, 3, 129},
                         Sizes{17, 257, 1}, Sizes{64, 128, 256}}) {
    for (const WeightLayout layout : {WeightLayout::kInOut, WeightLayout::kOutIn}) {
      for (const bool flag : {false, true}) {
        SCOPED_TRACE(testing::Message() << s.rows << " " << s.in << " " << s.out << " " << flag);
        compare(
            [&](Rank& rank) {
              const Tensor x = rank.random(Shape{s.rows, s.in}, 1);
              const Tensor weight = rank.random(
                  layout == WeightLayout::kInOut ? Shape{s.in, s.out} : Shape{s.out, s.in}, 2);
              const Tensor bias = flag ? rank.random(Shape{s.out}, 3) : Tensor();
              const Tensor dy = rank.random(Shape{s.rows, s.out}, 4);
              const Tensor out = Tensor::empty_like(dy);
              const Tensor dx = rank.random(x.shape(), 5);
              const Tensor dweight = rank.random(weight.shape(), 6);
              const Tensor dbias = rank.random(Shape{s.out}, 7);
              rank.backend->linear_forward(rank.stream(), x, weight, layout, bias, out);
              rank.backend->linear_backward_input(rank.stream(), dy, weight, layout, dx, flag);
              rank.backend->linear_backward_weight(rank.stream(), x, dy, layout, dweight, flag);
              rank.backend->sum_rows(rank.stream(), dy, dbias, flag);
              return Outputs{out.to_host<float>(), dx.to_host<float>(), dweight.to_host<float>(),
                             dbias.to_host<float>()};
            },
            1e-5, false);
      }
    }
  }
}

TEST_F(Onednn, LinearTakesItsScratchpadFromTheLedger) {
  Rank rank(make_onednn_backend(), 2);
  const Tensor x = rank.random(Shape{256, 768}, 1);
  const Tensor weight = rank.random(Shape{512, 768}, 2);
  const Tensor out = Tensor::empty(rank.context, Shape{256, 512}, DType::kFloat32);
  rank.backend->linear_forward(rank.stream(), x, weight, WeightLayout::kOutIn, Tensor(), out);
  const LinearCall call = {LinearCall::Pass::kForward,
                           256,
                           768,
                           512,
                           WeightLayout::kOutIn,
                           false,
                           false,
                           DType::kFloat32,
                           DType::kFloat32};
  EXPECT_GT(rank.backend->linear_workspace(call), 0);
  EXPECT_EQ(rank.context.ledger().snapshot().peak_of(Category::kWorkspace),
            rank.backend->linear_workspace(call));
  EXPECT_EQ(rank.context.ledger().snapshot().current_of(Category::kWorkspace), 0);
}

TEST_F(Onednn, ElementwiseAgreesWithPlain) {
  for (const int64_t size : {1L, 3L, 17L, 65L, 127L, 257L, 100003L}) {
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(testing::Message() << size << " " << accumulate);
      compare(
          [&](Rank& rank) {
            Backend& backend = *rank.backend;
            const Tensor x = rank.random(Shape{size}, 1, 3.0F);
            const Tensor dy = rank.random(Shape{size}, 2);
            Outputs outputs;
            const auto with_out = [&](const auto& kernel) {
              const Tensor out = rank.random(Shape{size}, 3);
              kernel(out);
              outputs.push_back(out.to_host<float>());
            };
            Stream& stream = rank.stream();
            with_out([&](const Tensor& out) { backend.fill(stream, out, 0.1); });
            with_out([&](const Tensor& out) { backend.copy(stream, x, out); });
            with_out([&](const Tensor& out) { backend.accumulate(stream, x, out); });
            with_out([&](const Tensor& out) { backend.add(stream, x, dy, out); });
            with_out([&](const Tensor& out) { backend.scale(stream, x, 0.3, out, accumulate); });
            with_out([&](const Tensor& out) { backend.relu_forward(stream, x, out); });
            with_out(
                [&](const Tensor& out) { backend.relu_backward(stream, x, dy, out, accumulate); });
            with_out([&](const Tensor& out) { backend.gelu_forward(stream, x, out); });
            with_out(
                [&](const Tensor& out) { backend.gelu_backward(stream, x, dy, out, accumulate); });
            return outputs;
          },
          5e-6);
    }
  }
}

TEST_F(Onednn, AddRepeatsTheSecondOperand) {
  for (const int64_t period : {1L, 7L, 16L, 333L, 5000L}) {
    compare(
        [&](Rank& rank) {
          const Tensor a = rank.random(Shape{23, period}, 1);
          rank.backend->add(rank.stream(), a, rank.random(Shape{period}, 2), a);
          return Outputs{a.to_host<float>()};
        },
        0.0);
  }
}

TEST_F(Onednn, GeluOfExtremeNumbers) {
  compare(
      [&](Rank& rank) {
        const Tensor x = rank.tensor(
            Shape{8}, {0.0F, -0.0F, -100.0F, 100.0F, -5.5F, 1e-30F, 3e38F, kFloatInfinity});
        const Tensor out = Tensor::empty_like(x);
        rank.backend->gelu_forward(rank.stream(), x, out);
        return Outputs{out.range(0, 6).to_host<float>(), out.range(6, 2).to_host<float>()};
      },
      1e-6);
}

TEST_F(Onednn, DropoutIsPlainsToTheBit) {
  for (const int64_t size : kOddSizes) {
    for (const bool accumulate : {false, true}) {
      compare(
          [&](Rank& rank) {
            const DropoutKey key = {.seed = 42, .op = 3, .first_sample = 5, .probability = 0.3};
            const Tensor x = rank.random(Shape{7, 37, size}, 1);
            const Tensor out = rank.random(x.shape(), 2);
            rank.backend->dropout(rank.stream(), x, key, out, accumulate);
            return Outputs{out.to_host<float>()};
          },
          0.0);
    }
  }
}

TEST_F(Onednn, LayerNormAgreesWithPlain) {
  for (const int64_t cols : kOddSizes) {
    for (const bool flag : {false, true}) {
      SCOPED_TRACE(testing::Message() << cols << " " << flag);
      compare(
          [&](Rank& rank) {
            Backend& backend = *rank.backend;
            const Shape shape = {3, 91, cols};
            const Tensor x = rank.random(shape, 1, 2.0F);
            const Tensor weight = rank.random(Shape{cols}, 2);
            const Tensor bias = flag ? rank.random(Shape{cols}, 3) : Tensor();
            const Tensor dy = rank.random(shape, 4);
            const Tensor out = Tensor::empty_like(x);
            const Tensor mean = rank.random(Shape{3 * 91}, 5);
            const Tensor rstd = rank.random(Shape{3 * 91}, 6);
            const Tensor dx = rank.random(shape, 7);
            const Tensor dweight = rank.random(Shape{cols}, 8);
            const Tensor dbias = flag ? rank.random(Shape{cols}, 9) : Tensor();
            // A column alone has no variance: a larger epsilon keeps its rstd in bounds.
            const double epsilon = cols == 1 ? 1.0 : 1e-5;
            backend.layer_norm_forward(rank.stream(), x, weight, bias, epsilon, out, mean, rstd);
            backend.layer_norm_backward_input(rank.stream(), x, weight, mean, rstd, dy, dx, flag);
            backend.layer_norm_backward_parameters(rank.stream(), x, mean, rstd, dy, dweight, flag,
                                                   dbias, flag);
            Outputs outputs = {out.to_host<float>(), mean.to_host<float>(), rstd.to_host<float>(),
                               dx.to_host<float>(), dweight.to_host<float>()};
            if (flag) {
              outputs.push_back(dbias.to_host<float>());
            }
            return outputs;
          },
          1e-5);
    }
  }
}

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
            rank.backend->attention_forward(rank.stream(), qkv, s.heads, mask, out,
                                            log_sum_exp);
            rank.backend->attention_backward(rank.stream(), qkv, out, log_sum_exp, dy, s.heads,
                                             mask, dqkv, accumulate);
            return Outputs{out.to_host<float>(), log_sum_exp.to_host<float>(),
                           dqkv.to_host<float>()};
          },
          1e-5);
    }
  }
}

TEST_F(Onednn, SoftmaxAndSiluAgreeWithPlain) {
  for (const int64_t cols : kOddSizes) {
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(testing::Message() << cols << " " << accumulate);
      compare(
          [&](Rank& rank) {
            Backend& backend = *rank.backend;
            const Tensor x = rank.random(Shape{301, cols}, 1, 3.0F);
            const Tensor dy = rank.random(x.shape(), 2);
            const Tensor softmax = Tensor::empty_like(x);
            const Tensor silu = Tensor::empty_like(x);
            const Tensor dsoftmax = rank.random(x.shape(), 3);
            const Tensor dsilu = rank.random(x.shape(), 4);
            backend.softmax_forward(rank.stream(), x, softmax);
            backend.softmax_backward(rank.stream(), softmax, dy, dsoftmax, accumulate);
            backend.silu_forward(rank.stream(), x, silu);
            backend.silu_backward(rank.stream(), x, dy, dsilu, accumulate);
            return Outputs{softmax.to_host<float>(), dsoftmax.to_host<float>(),
                           silu.to_host<float>(), dsilu.to_host<float>()};
          },
          1e-6);
    }
  }
}

TEST_F(Onednn, MeansAndOtherOrdersArePlainsToTheBit) {
  for (const int64_t cols : kOddSizes) {
    SCOPED_TRACE(cols);
    compare(
        [&](Rank& rank) {
          const Tensor x = rank.random(Shape{7, 5, 9, cols}, 1);
          const Tensor mean = Tensor::empty(rank.context, Shape{35, cols}, DType::kFloat32);
          rank.backend->mean_positions(rank.stream(), x.view(Shape{35, 9, cols}), mean);
          Outputs outputs = {mean.to_host<float>()};
          for (const Tensor& made :
               {ops::transpose(x, 0, 2), ops::transpose(x, 1, 3), ops::slice(x, 2, 3, 4),
                ops::concatenate(x, rank.random(Shape{7, 5, 9, 3}, 2), 3)}) {
            outputs.push_back(made.to_host<float>());
          }
          const Tensor added = rank.random(Shape{7, 5, 9, cols}, 3);
          const StridedCopy repeat = {.extents = {7, 5, 9, cols},
                                      .source = {.strides = {0, 0, cols, 1}},
                                      .out = {.strides = {45 * cols, 9 * cols, cols, 1}}};
          rank.backend->copy_strided(rank.stream(), x, repeat, added, true);
          outputs.push_back(added.to_host<float>());
          return outputs;
        },
        0.0);
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

TEST_F(Onednn, OptimizerStepsArePlainsToTheBitHoweverTheyAreCut) {
  constexpr int64_t kSize = 100003;
  for_each_rule([&]<typename Rule>() {
    SCOPED_TRACE(Rule::kName);
    const Rule rule({.learning_rate = 1e-2, .momentum = 0.9, .weight_decay = 0.1, .step = 3});
    for (const bool cut : {false, true}) {
      compare(
          [&](Rank& rank) {
            const Tensor gradient = rank.random(Shape{kSize}, 1);
            const Tensor parameter = rank.random(Shape{kSize}, 2);
            const std::vector<Tensor> states = update_states(kNumStates<Rule>, [&](int state) {
              return state == 0 ? rank.random(Shape{kSize}, 3)
                                : rank.tensor(Shape{kSize}, std::vector<float>(kSize, 0.5F));
            });
            // Plain is not cut: it is what the cut pieces must equal.
            for_cuts(kSize, cut && rank.backend->name() == "onednn", [&](int64_t begin, int64_t n) {
              rank.backend->update(rank.stream(), {rule}, 0.7, gradient.range(begin, n),
                                   parameter.range(begin, n), ranges_of(states, begin, n));
            });
            Outputs outputs = {parameter.to_host<float>()};
            for (const Tensor& state : states) {
              outputs.push_back(state.to_host<float>());
            }
            return outputs;
          },
          0.0);
    }
  });
}

TEST_F(Onednn, SumsArePlainsToTheBitHoweverTheyAreCut) {
  constexpr int64_t kSize = 100003;
  for (const bool cut : {false, true}) {
    compare(
        [&](Rank& rank) {
          const Tensor a = rank.random(Shape{kSize}, 1);
          const Tensor b = rank.random(Shape{kSize}, 2);
          const Tensor sum = rank.random(Shape{kSize}, 3);
          const Tensor mean = rank.random(Shape{kSize}, 4);
          const Tensor gelu = rank.random(Shape{kSize}, 5);
          for_cuts(kSize, cut, [&](int64_t begin, int64_t n) {
            rank.backend->add(rank.stream(), a.range(begin, n), b.range(begin, n),
                              sum.range(begin, n));
            rank.backend->accumulate(rank.stream(), a.range(begin, n), sum.range(begin, n));
            const auto bytes_of = [&](const Tensor& tensor) {
              return tensor.range(begin, n).raw();
            };
            const std::byte* const sources[] = {bytes_of(mean), bytes_of(a), bytes_of(b)};
            rank.backend->reduce_in_order(sources, DType::kFloat32, 3.0,
                                          {bytes_of(mean), static_cast<size_t>(n) * sizeof(float)});
          });
          return Outputs{sum.to_host<float>(), mean.to_host<float>()};
        },
        0.0);
  }
}

TEST_F(Onednn, GeluDoesNotDependOnCuts) {
  constexpr int64_t kSize = 100003;
  const auto gelu = [&](bool cut) {
    Rank rank(make_onednn_backend(), 2);
    const Tensor x = rank.random(Shape{kSize}, 1);
    const Tensor out = Tensor::empty_like(x);
    for_cuts(kSize, cut, [&](int64_t begin, int64_t n) {
      rank.backend->gelu_forward(rank.stream(), x.range(begin, n), out.range(begin, n));
    });
    return out.to_host<float>();
  };
  EXPECT_EQ(gelu(false), gelu(true));
}

std::vector<int64_t> statistics_of(Rank& rank, const Tensor& gradient, int64_t block,
                                   const std::vector<int64_t>& cuts) {
  const Tensor statistics = Tensor::zeros(rank.context, Shape{kStatisticsWords}, DType::kInt64);
  auto* words = statistics.data<int64_t>();
  words[kFirstNonFiniteWord] = kAllFinite;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    rank.backend->gradient_statistics(rank.stream(), gradient.range(cuts[i], cuts[i + 1] - cuts[i]),
                                      block, 1000 + cuts[i], statistics);
  }
  normalize_exact_sum({words, kExactSumWords});
  return statistics.to_host<int64_t>();
}

TEST_F(Onednn, GradientStatisticsArePlainsToTheBit) {
  constexpr int64_t kSize = 128 * 1500 + 77;
  for (const int64_t block : {1L, 7L, 128L}) {
    for (const bool finite : {true, false}) {
      SCOPED_TRACE(testing::Message() << block << " " << finite);
      const auto statistics = [&](std::unique_ptr<Backend> backend, int threads,
                                  const std::vector<int64_t>& cuts) {
        Rank rank(std::move(backend), threads);
        const Tensor gradient = rank.random(Shape{kSize}, 1);
        if (!finite) {
          gradient.data<float>()[150001] = kFloatInfinity;
          gradient.data<float>()[90005] = std::nanf("");
          gradient.data<float>()[90006] = kFloatInfinity;
        }
        return statistics_of(rank, gradient, block, cuts);
      };
      const auto expected = statistics(make_plain_backend(), 1, {0, kSize});
      EXPECT_EQ(expected[kFirstNonFiniteWord], finite ? kAllFinite : 91005);
      EXPECT_EQ(statistics(make_onednn_backend(), 2, {0, kSize}), expected);
      EXPECT_EQ(statistics(make_onednn_backend(), 1, {0, kSize}), expected);
      EXPECT_EQ(statistics(make_onednn_backend(), 2, {0, 7 * 128, 7 * 128 * 91, kSize}), expected);
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

TEST_F(Onednn, RefusesFp64) {
  Rank rank(make_onednn_backend(), 1);
  const Tensor x = Tensor::empty(rank.context, Shape{4}, DType::kFloat64);
  EXPECT_THROW(rank.backend->gelu_forward(rank.stream(), x, x), Error);
  EXPECT_THROW(rank.backend->add(rank.stream(), x, x, x), Error);
  const Tensor matrix = x.view(Shape{2, 2});
  EXPECT_THROW(rank.backend->linear_forward(rank.stream(), matrix, matrix, WeightLayout::kInOut,
                                            Tensor(), matrix),
               Error);
}

}  // namespace
}  // namespace zerolab

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "framework/core/exact_sum.h"
#include "framework/onednn/backend.h"
#include "framework/update_rules/update_rule.h"
#include "tests/framework/onednn_rank.h"
#include "tests/framework/update_states.h"

// The 16-bit kernels of the fast CPU backend against its own fp32 ones on the same numbers.

namespace zerolab {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr DType kFloat32 = DType::kFloat32;

/// `body` with a value of the C++ type of bf16 or fp16.
template <typename Body>
auto with_half(DType half, Body&& body) {
  return half == DType::kBFloat16 ? body(BFloat16{}) : body(Float16{});
}

float rounded(DType half, float value) {
  return with_half(half, [&]<typename T>(T) { return static_cast<float>(static_cast<T>(value)); });
}

/// The largest error of one rounding of `value`.
float rounding_of(DType half, float value) {
  return half == DType::kBFloat16 ? std::abs(value) * 0x1p-8F
                                  : std::abs(value) * 0x1p-11F + 0x1p-25F;
}

Tensor tensor_of(Rank& rank, const Shape& shape, DType dtype, const std::vector<float>& values) {
  if (dtype == kFloat32) {
    return rank.tensor(shape, values);
  }
  return with_half(dtype, [&]<typename T>(T) {
    std::vector<T> narrow;
    for (const float value : values) {
      narrow.push_back(static_cast<T>(value));
    }
    return Tensor::from_host(rank.context, shape, std::span<const T>(narrow));
  });
}

std::vector<float> values_of(const Tensor& tensor) {
  if (tensor.dtype() == kFloat32) {
    return tensor.to_host<float>();
  }
  return with_half(tensor.dtype(), [&]<typename T>(T) {
    std::vector<float> values;
    for (const T value : tensor.to_host<T>()) {
      values.push_back(static_cast<float>(value));
    }
    return values;
  });
}

/// What a kernel under test runs in: tensors "of T" are of 16 bits, or, for the expected result,
/// fp32 with the same numbers in them.
class TypedRank {
 public:
  TypedRank(DType half, DType type, int threads)
      : type(type), rank(make_onednn_backend(), threads), half_(half) {}

  /// Numbers that T holds, as T.
  Tensor random(const Shape& shape, uint32_t seed, float scale = 1.0F) {
    return random(shape, seed, type, scale);
  }
  /// The same numbers as another dtype.
  Tensor random(const Shape& shape, uint32_t seed, DType dtype, float scale = 1.0F) {
    std::vector<float> values = random_numbers(shape.numel(), seed, scale);
    for (float& value : values) {
      value = rounded(half_, value);
    }
    return tensor_of(rank, shape, dtype, values);
  }
  Backend& backend() { return *rank.backend; }
  Stream& stream() { return rank.stream(); }

  const DType type;  ///< T
  Rank rank;

 private:
  const DType half_;
};

using Kernel = std::function<std::vector<Tensor>(TypedRank&)>;

class OnednnHalf : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!onednn_is_available()) {
      GTEST_SKIP() << "built without oneDNN";
    }
  }

  static DType half() { return GetParam(); }

  /// Outputs of T must be those of fp32, rounded once, and outputs of fp32 the same; but for
  /// `tolerance` times the largest. With one thread the same bits as with two, if `same_bits`.
  static void compare(const Kernel& kernel, float tolerance = 0.0F, bool same_bits = true) {
    TypedRank wide(half(), kFloat32, 2);
    TypedRank narrow(half(), half(), 2);
    TypedRank alone(half(), half(), 1);
    const auto expected = kernel(wide);
    const auto got = kernel(narrow);
    const auto got_alone = kernel(alone);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t output = 0; output < got.size(); ++output) {
      const std::vector<float> want = values_of(expected[output]);
      const std::vector<float> have = values_of(got[output]);
      ASSERT_EQ(want.size(), have.size());
      const bool narrowed = got[output].dtype() == half();
      float largest = 0.0F;
      for (const float value : want) {
        ASSERT_TRUE(std::isfinite(value));
        largest = std::max(largest, std::abs(value));
      }
      for (size_t i = 0; i < have.size(); ++i) {
        const float exact = narrowed ? rounded(half(), want[i]) : want[i];
        const float room = tolerance * largest + (narrowed ? rounding_of(half(), want[i]) : 0.0F);
        ASSERT_TRUE(tolerance == 0.0F ? have[i] == exact : std::abs(have[i] - want[i]) <= room)
            << "output " << output << ", element " << i << ": got " << have[i] << ", expected "
            << want[i];
      }
      if (same_bits) {
        EXPECT_EQ(0, std::memcmp(got[output].raw(), got_alone[output].raw(), got[output].bytes()))
            << "output " << output;
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Types, OnednnHalf, ::testing::Values(DType::kBFloat16, DType::kFloat16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(OnednnHalf, WideningHasTheBitsOfTheScalarConversion) {
  constexpr int64_t kPatterns = 65536;
  for (const bool cut : {false, true}) {
    Rank rank(make_onednn_backend(), 1);
    const Tensor source = Tensor::empty(rank.context, Shape{kPatterns}, half());
    const Tensor out = Tensor::empty(rank.context, Shape{kPatterns}, kFloat32);
    for (int64_t i = 0; i < kPatterns; ++i) {
      source.data<uint16_t>()[i] = static_cast<uint16_t>(i);
    }
    for_cuts(kPatterns, cut, [&](int64_t begin, int64_t n) {
      rank.backend->copy(rank.stream(), source.range(begin, n), out.range(begin, n));
    });
    for (int64_t i = 0; i < kPatterns; ++i) {
      const float expected = with_half(half(), [&]<typename T>(T) {
        return static_cast<float>(std::bit_cast<T>(static_cast<uint16_t>(i)));
      });
      ASSERT_EQ(std::bit_cast<uint32_t>(out.data<float>()[i]), std::bit_cast<uint32_t>(expected))
          << i;
    }
  }
}

TEST_P(OnednnHalf, RoundingHasTheBitsOfTheScalarConversion) {
  // Every number of 16 bits, the ties between neighbours, what is just beside either, and floats of
  // all kinds: among them subnormal ones, too large ones and signalling NaNs.
  std::vector<uint32_t> patterns;
  const auto add = [&](float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    patterns.insert(patterns.end(), {bits - 1, bits, bits + 1});
  };
  with_half(half(), [&]<typename T>(T) {
    for (int i = 0; i < 65535; ++i) {
      const auto value = static_cast<float>(std::bit_cast<T>(static_cast<uint16_t>(i)));
      const auto next = static_cast<float>(std::bit_cast<T>(static_cast<uint16_t>(i + 1)));
      add(value);
      add(value * 0.5F + next * 0.5F);
    }
  });
  for (uint32_t i = 0; i < 1000003; ++i) {
    patterns.push_back(i * 2654435761U);
  }
  for (uint32_t i = 0; i < 40; ++i) {
    patterns.push_back(i);
    patterns.push_back(0x7F800000U + i);
    patterns.push_back(0xFF800000U + i);
    patterns.push_back(0x80000000U + i);
  }
  const auto count = static_cast<int64_t>(patterns.size());
  for (const bool cut : {false, true}) {
    Rank rank(make_onednn_backend(), 1);
    const Tensor source = Tensor::empty(rank.context, Shape{count}, kFloat32);
    std::memcpy(source.raw(), patterns.data(), source.bytes());
    const Tensor out = Tensor::empty(rank.context, Shape{count}, half());
    for_cuts(count, cut, [&](int64_t begin, int64_t n) {
      rank.backend->copy(rank.stream(), source.range(begin, n), out.range(begin, n));
    });
    for (int64_t i = 0; i < count; ++i) {
      const auto value = std::bit_cast<float>(patterns[i]);
      const auto expected = with_half(
          half(), [&]<typename T>(T) { return std::bit_cast<uint16_t>(static_cast<T>(value)); });
      ASSERT_EQ(out.data<uint16_t>()[i], expected) << std::hex << patterns[i];
    }
  }
}

TEST_P(OnednnHalf, Elementwise) {
  for (const int64_t size : {1L, 3L, 17L, 257L, 100003L}) {
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(testing::Message() << size << " " << accumulate);
      compare([&](TypedRank& run) {
        Backend& backend = run.backend();
        Stream& stream = run.stream();
        const Tensor x = run.random(Shape{size}, 1, 3.0F);
        const Tensor dy = run.random(Shape{size}, 2);
        std::vector<Tensor> outputs;
        const auto with_out = [&](const auto& kernel) {
          outputs.push_back(run.random(Shape{size}, 3));
          kernel(outputs.back());
        };
        with_out([&](const Tensor& out) { backend.fill(stream, out, 0.1); });
        with_out([&](const Tensor& out) { backend.copy(stream, x, out); });
        with_out([&](const Tensor& out) { backend.accumulate(stream, x, out); });
        with_out([&](const Tensor& out) { backend.add(stream, x, dy, out); });
        with_out([&](const Tensor& out) { backend.add(stream, x, dy.range(0, 1), out); });
        with_out([&](const Tensor& out) { backend.scale(stream, x, 0.3, out, accumulate); });
        with_out([&](const Tensor& out) { backend.relu_forward(stream, x, out); });
        with_out([&](const Tensor& out) { backend.relu_backward(stream, x, dy, out, accumulate); });
        with_out([&](const Tensor& out) { backend.gelu_forward(stream, x, out); });
        with_out([&](const Tensor& out) { backend.gelu_backward(stream, x, dy, out, accumulate); });
        with_out([&](const Tensor& out) {
          backend.dropout(stream, x, {.seed = 4, .op = 2, .first_sample = 5, .probability = 0.3},
                          out, accumulate);
        });
        return outputs;
      });
    }
  }
}

TEST_P(OnednnHalf, AccumulatesAndCopiesAcrossTypes) {
  constexpr int64_t kSize = 70001;
  // Of numbers of 16 bits: what is added is exact in either type.
  compare([&](TypedRank& run) {
    const Tensor sum = run.random(Shape{kSize}, 1, kFloat32);
    run.backend().accumulate(run.stream(), run.random(Shape{kSize}, 2), sum);
    const Tensor narrow_sum = run.random(Shape{kSize}, 3);
    run.backend().accumulate(run.stream(), sum, narrow_sum);
    const Tensor copied = run.random(Shape{kSize}, 4);
    run.backend().copy(run.stream(), sum, copied);
    return std::vector<Tensor>{sum, narrow_sum, copied};
  });
}

TEST_P(OnednnHalf, ConvertsBetweenTheTwoTypesOfSixteenBits) {
  const DType other = half() == DType::kBFloat16 ? DType::kFloat16 : DType::kBFloat16;
  TypedRank run(half(), half(), 1);
  const Tensor source = run.random(Shape{1003}, 1);
  const Tensor out = Tensor::empty(run.rank.context, source.shape(), other);
  run.backend().copy(run.stream(), source, out);
  std::vector<float> expected = values_of(source);
  for (float& value : expected) {
    value = rounded(other, value);
  }
  EXPECT_EQ(values_of(out), expected);
}

TEST_P(OnednnHalf, LayerNorm) {
  for (const int64_t cols : {1L, 17L, 130L, 768L}) {
    for (const bool wide_gradients : {false, true}) {
      SCOPED_TRACE(testing::Message() << cols << " " << wide_gradients);
      compare([&](TypedRank& run) {
        Backend& backend = run.backend();
        const Shape shape = {3, 91, cols};
        const DType gradients = wide_gradients ? kFloat32 : run.type;
        const Tensor x = run.random(shape, 1, 2.0F);
        const Tensor weight = run.random(Shape{cols}, 2);
        const Tensor bias = wide_gradients ? run.random(Shape{cols}, 3) : Tensor();
        const Tensor dy = run.random(shape, 4);
        const Tensor out = Tensor::empty_like(x);
        const Tensor mean = run.random(Shape{3 * 91}, 5, kFloat32);
        const Tensor rstd = run.random(Shape{3 * 91}, 6, kFloat32);
        const Tensor dx = run.random(shape, 7);
        const Tensor dweight = run.random(Shape{cols}, 8, gradients);
        const Tensor dbias = run.random(Shape{cols}, 9, gradients);
        const Tensor sums = run.random(Shape{cols}, 10, gradients);
        backend.layer_norm_forward(run.stream(), x, weight, bias, 1e-2, out, mean, rstd);
        backend.layer_norm_backward_input(run.stream(), x, weight, mean, rstd, dy, dx,
                                          wide_gradients);
        backend.layer_norm_backward_parameters(run.stream(), x, mean, rstd, dy, dweight, true,
                                               dbias, false);
        backend.sum_rows(run.stream(), dy, sums, wide_gradients);
        return std::vector<Tensor>{out, mean, rstd, dx, dweight, dbias, sums};
      });
    }
  }
}

TEST_P(OnednnHalf, LayerNormGradientsMayDifferInTypeOrBeLeftOut) {
  compare([&](TypedRank& run) {
    const Tensor x = run.random(Shape{5, 40}, 1);
    const Tensor statistics = run.random(Shape{5}, 2, kFloat32);
    const Tensor dweight = run.random(Shape{40}, 3);
    const Tensor dbias = run.random(Shape{40}, 4, kFloat32);
    const Tensor only = run.random(Shape{40}, 5);
    run.backend().layer_norm_backward_parameters(run.stream(), x, statistics, statistics, x,
                                                 dweight, false, dbias, true);
    run.backend().layer_norm_backward_parameters(run.stream(), x, statistics, statistics, x,
                                                 Tensor(), false, only, true);
    return std::vector<Tensor>{dweight, dbias, only};
  });
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
                                             log_sum_exp, dy, s.heads, mask, dqkv,
                                             accumulate);
            return std::vector<Tensor>{out, log_sum_exp, dqkv};
          },
          accumulate ? 1e-6F : 0.0F);
    }
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

TEST_P(OnednnHalf, OptimizerSteps) {
  constexpr int64_t kSize = 70001;
  for_each_rule([&]<typename Rule>() {
    SCOPED_TRACE(Rule::kName);
    const Rule rule({.learning_rate = 1e-2, .momentum = 0.9, .weight_decay = 0.1, .step = 3});
    compare([&](TypedRank& run) {
      const Tensor gradient = run.random(Shape{kSize}, 1);
      const Tensor parameter = run.random(Shape{kSize}, 2, kFloat32);
      std::vector<Tensor> outputs = update_states(kNumStates<Rule>, [&](int state) {
        return state == 0 ? run.random(Shape{kSize}, 3, kFloat32)
                          : run.rank.tensor(Shape{kSize}, std::vector<float>(kSize, 0.5F));
      });
      run.backend().update(run.stream(), {rule}, 0.7, gradient, parameter, outputs);
      outputs.push_back(parameter);
      return outputs;
    });
  });
}

TEST_P(OnednnHalf, GradientStatistics) {
  constexpr int64_t kSize = 128 * 500 + 77;
  for (const int64_t block : {1L, 7L, 128L}) {
    for (const bool finite : {true, false}) {
      SCOPED_TRACE(testing::Message() << block << " " << finite);
      const auto statistics = [&](DType type, int threads) {
        TypedRank run(half(), type, threads);
        std::vector<float> values = random_numbers(kSize, 1);
        if (!finite) {
          values[50001] = kInfinity;
          values[20005] = -kInfinity;
          values[20006] = std::nanf("");
        }
        for (float& value : values) {
          value = rounded(half(), value);
        }
        const Tensor gradient = tensor_of(run.rank, Shape{kSize}, type, values);
        const Tensor words =
            Tensor::zeros(run.rank.context, Shape{kStatisticsWords}, DType::kInt64);
        words.data<int64_t>()[kFirstNonFiniteWord] = kAllFinite;
        run.backend().gradient_statistics(run.stream(), gradient, block, 1000, words);
        normalize_exact_sum({words.data<int64_t>(), kExactSumWords});
        return words.to_host<int64_t>();
      };
      const auto expected = statistics(kFloat32, 1);
      EXPECT_EQ(expected[kFirstNonFiniteWord], finite ? kAllFinite : 21005);
      EXPECT_EQ(statistics(half(), 1), expected);
      EXPECT_EQ(statistics(half(), 2), expected);
    }
  }
}

TEST_P(OnednnHalf, BitsDoNotDependOnCuts) {
  constexpr int64_t kSize = 100003;
  const auto run_cut = [&](bool cut) {
    TypedRank run(half(), half(), 2);
    const Tensor a = run.random(Shape{kSize}, 1);
    const Tensor b = run.random(Shape{kSize}, 2);
    const Tensor wide = run.random(Shape{kSize}, 3, kFloat32);
    std::vector<Tensor> outputs;
    for (uint32_t seed = 4; seed < 12; ++seed) {
      outputs.push_back(run.random(Shape{kSize}, seed, seed < 9 ? half() : kFloat32, 0.1F));
    }
    run.backend().fill(run.stream(), outputs[7], 0.5);
    for_cuts(kSize, cut, [&](int64_t begin, int64_t n) {
      Backend& backend = run.backend();
      Stream& stream = run.stream();
      const auto part = [&](const Tensor& tensor) { return tensor.range(begin, n); };
      backend.add(stream, part(a), part(b), part(outputs[0]));
      backend.gelu_forward(stream, part(a), part(outputs[1]));
      backend.gelu_backward(stream, part(a), part(b), part(outputs[2]), true);
      backend.accumulate(stream, part(wide), part(outputs[3]));
      const std::byte* const sources[] = {part(outputs[4]).raw(), part(a).raw(), part(b).raw()};
      backend.reduce_in_order(
          sources, half(), 3.0,
          {part(outputs[4]).raw(), static_cast<size_t>(part(outputs[4]).bytes())});
      backend.update(stream, {AdamW({.learning_rate = 1e-3, .step = 2})}, 1.0, part(a),
                     part(outputs[5]), std::array{part(outputs[6]), part(outputs[7])});
    });
    std::vector<std::vector<float>> values;
    for (const Tensor& output : outputs) {
      values.push_back(values_of(output));
    }
    return values;
  };
  EXPECT_EQ(run_cut(false), run_cut(true));
}

TEST_P(OnednnHalf, ReductionsAddInFp32InOrderAndRoundOnce) {
  constexpr int64_t kSize = 1003;
  compare([&](TypedRank& run) {
    const Tensor mean = run.random(Shape{kSize}, 1);
    const Tensor b = run.random(Shape{kSize}, 2, 100.0F);
    const Tensor c = run.random(Shape{kSize}, 3);
    const std::byte* const sources[] = {mean.raw(), b.raw(), c.raw()};
    run.backend().reduce_in_order(sources, run.type, 3.0,
                                  {mean.raw(), static_cast<size_t>(mean.bytes())});
    return std::vector<Tensor>{mean};
  });
}

TEST_P(OnednnHalf, Linear) {
  struct Sizes {
    int64_t rows, in, out;
  };
  for (const Sizes& s : {Sizes{1, 1, 1}, Sizes{3, 17, 5}, Sizes{65, 127, 33}, Sizes{257, 3, 129},
                         Sizes{64, 128, 256}, Sizes{1000, 24, 40}}) {
    for (const WeightLayout layout : {WeightLayout::kInOut, WeightLayout::kOutIn}) {
      for (const bool flag : {false, true}) {
        SCOPED_TRACE(testing::Message() << s.rows << " " << s.in << " " << s.out << " " << flag);
        compare(
            [&](TypedRank& run) {
              const Tensor x = run.random(Shape{s.rows, s.in}, 1);
              const Tensor weight = run.random(
                  layout == WeightLayout::kInOut ? Shape{s.in, s.out} : Shape{s.out, s.in}, 2);
              const Tensor bias = flag ? run.random(Shape{s.out}, 3) : Tensor();
              const Tensor dy = run.random(Shape{s.rows, s.out}, 4);
              const Tensor out = Tensor::empty_like(dy);
              const Tensor dx = run.random(x.shape(), 5);
              const Tensor dweight = run.random(weight.shape(), 6);
              const Tensor wide_dweight = run.random(weight.shape(), 7, kFloat32);
              Backend& backend = run.backend();
              backend.linear_forward(run.stream(), x, weight, layout, bias, out);
              backend.linear_backward_input(run.stream(), dy, weight, layout, dx, flag);
              backend.linear_backward_weight(run.stream(), x, dy, layout, dweight, flag);
              backend.linear_backward_weight(run.stream(), x, dy, layout, wide_dweight, flag);
              return std::vector<Tensor>{out, dx, dweight, wide_dweight};
            },
            1e-5F, false);
      }
    }
  }
}

TEST_P(OnednnHalf, ProductsThatAreAddedAreRoundedOnce) {
  // Just above a tie. Were the product rounded before it is added, the tie would go down.
  const bool bf16 = half() == DType::kBFloat16;
  const float start = bf16 ? 256.0F : 2048.0F;
  const float above_one = bf16 ? 0x1.01p0F : 0x1.002p0F;  // halfway to the next after 1
  TypedRank run(half(), half(), 1);
  for (const int64_t size : {2L, 64L}) {
    const Tensor x = Tensor::zeros(run.rank.context, Shape{size, size}, half());
    const Tensor dy = Tensor::zeros(run.rank.context, Shape{size, size}, half());
    // 1 * 1 + 1 * (above_one - 1)
    std::vector<float> ones(size * size, 0.0F);
    ones[0] = 1.0F;
    ones[size] = 1.0F;
    std::vector<float> factors(size * size, 0.0F);
    factors[0] = 1.0F;
    factors[size] = above_one - 1.0F;
    const Tensor dweight = Tensor::empty(run.rank.context, Shape{size, size}, half());
    run.backend().fill(run.stream(), dweight, start);
    run.backend().linear_backward_weight(run.stream(),
                                         tensor_of(run.rank, Shape{size, size}, half(), ones),
                                         tensor_of(run.rank, Shape{size, size}, half(), factors),
                                         WeightLayout::kInOut, dweight, true);
    EXPECT_EQ(values_of(dweight)[0], start + 2.0F);
    EXPECT_EQ(values_of(dweight)[1], start);
  }
}

TEST_P(OnednnHalf, LinearTakesItsWorkspaceFromTheLedger) {
  for (const DType gradient : {half(), kFloat32}) {
    for (const bool accumulate : {false, true}) {
      TypedRank run(half(), half(), 2);
      const Tensor x = run.random(Shape{250, 77}, 1);
      const Tensor dy = run.random(Shape{250, 131}, 2);
      const Tensor dweight = run.random(Shape{77, 131}, 3, gradient);
      run.backend().linear_backward_weight(run.stream(), x, dy, WeightLayout::kInOut, dweight,
                                           accumulate);
      const LinearCall call = {.pass = LinearCall::Pass::kBackwardWeight,
                               .rows = 250,
                               .in = 77,
                               .out = 131,
                               .layout = WeightLayout::kInOut,
                               .bias = false,
                               .accumulate = accumulate,
                               .dtype = half(),
                               .out_dtype = gradient};
      const auto ledger = run.rank.context.ledger().snapshot();
      EXPECT_EQ(ledger.peak_of(Category::kWorkspace), run.backend().linear_workspace(call));
      EXPECT_EQ(ledger.current_of(Category::kWorkspace), 0);
      if (half() == DType::kFloat16) {  // for which oneDNN has no product: its factors are widened
        EXPECT_GE(run.backend().linear_workspace(call), (250 * 77 + 250 * 131) * 4);
      }
    }
  }
}

}  // namespace
}  // namespace zerolab

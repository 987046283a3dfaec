#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "framework/core/error.h"
#include "framework/core/exact_sum.h"
#include "framework/core/philox.h"
#include "framework/kernels/weight_layout.h"
#include "framework/ops/cross_entropy.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/embedding.h"
#include "framework/tensor/backend.h"
#include "framework/update_rules/update_rule.h"
#include "tests/framework/test_rank.h"
#include "tests/framework/update_states.h"

namespace zerolab {
namespace {

constexpr float kFloatInf = std::numeric_limits<float>::infinity();
constexpr float kFloatNan = std::numeric_limits<float>::quiet_NaN();

class Plain : public testing::Test {
 protected:
  Stream& stream() { return rank_.context.compute(); }
  Tensor vector(const std::vector<float>& values) {
    return rank_.tensor<float>({static_cast<int64_t>(values.size())}, values);
  }
  Tensor fresh_statistics() {
    const Tensor statistics = Tensor::zeros(rank_.context, {kStatisticsWords}, DType::kInt64);
    statistics.data<int64_t>()[kFirstNonFiniteWord] = kAllFinite;
    return statistics;
  }
  TestRank rank_;
};

TEST_F(Plain, AdamWFollowsItsDefinition) {
  UpdateSettings settings{.learning_rate = 0.01, .weight_decay = 0.1};
  const Tensor parameter = vector({1.0F, -2.0F});
  const Tensor exp_avg = vector({0, 0});
  const Tensor exp_avg_sq = vector({0, 0});
  double p = 1.0;
  double m = 0.0;
  double v = 0.0;
  for (int step = 1; step <= 5; ++step) {
    const double g = 0.3 * step;
    settings.step = step;
    rank_.backend->update(stream(), {AdamW(settings)}, 0.5,
                          vector({static_cast<float>(2 * g), 0.0F}), parameter,
                          std::array{exp_avg, exp_avg_sq});
    p *= 1 - 0.01 * 0.1;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    p -= 0.01 * (m / (1 - std::pow(0.9, step))) /
         (std::sqrt(v / (1 - std::pow(0.999, step))) + 1e-8);
  }
  EXPECT_NEAR(parameter.to_host<float>()[0], p, 1e-6);
  EXPECT_NEAR(exp_avg.to_host<float>()[0], m, 1e-6);
  EXPECT_NEAR(exp_avg_sq.to_host<float>()[0], v, 1e-6);
  EXPECT_NEAR(parameter.to_host<float>()[1], -2.0 * std::pow(0.999, 5), 1e-6);  // decay alone
}

TEST_F(Plain, NoUpdateRuleDependsOnWhereSpansAreCut) {
  constexpr int64_t kSize = 1001;
  for_each_rule([&]<typename Rule>() {
    SCOPED_TRACE(Rule::kName);
    const Rule rule({.learning_rate = 0.01, .momentum = 0.9, .weight_decay = 0.1, .step = 3});
    const auto run = [&](int64_t cut) {
      const Tensor gradient = rank_.normal({kSize}, DType::kFloat32, "gradient");
      const Tensor parameter = rank_.normal({kSize}, DType::kFloat32, "parameter");
      const std::vector<Tensor> states = update_states(kNumStates<Rule>, [&](int state) {
        return state == 0 ? rank_.normal({kSize}, DType::kFloat32, "state")
                          : Tensor::zeros(rank_.context, {kSize}, DType::kFloat32);
      });
      for (int64_t begin = 0; begin < kSize; begin += cut) {
        const int64_t size = std::min(cut, kSize - begin);
        rank_.backend->update(stream(), {rule}, 1.0, gradient.range(begin, size),
                              parameter.range(begin, size), ranges_of(states, begin, size));
      }
      return parameter.to_host<float>();
    };
    EXPECT_EQ(run(kSize), run(1));
    EXPECT_EQ(run(kSize), run(37));
  });
}

TEST_F(Plain, SgdWithAndWithoutMomentum) {
  const Tensor parameter = vector({1.0F});
  rank_.backend->update(stream(), {Sgd({.learning_rate = 0.5})}, 2.0, vector({0.25F}), parameter,
                        {});
  EXPECT_EQ(parameter.to_host<float>()[0], 0.75F);
  const Tensor buffer = vector({1.0F});
  rank_.backend->update(stream(),
                        {MomentumSgd({.learning_rate = 0.5, .momentum = 0.5, .weight_decay = 1.0})},
                        1.0, vector({0.25F}), parameter, std::array{buffer});
  EXPECT_EQ(buffer.to_host<float>()[0], 1.5F);
  EXPECT_EQ(parameter.to_host<float>()[0], 0.0F);
}

TEST_F(Plain, StatisticsDoNotDependOnTheOrderOfBlocks) {
  const Tensor gradient = rank_.normal({1000}, DType::kFloat32, "gradient");
  const Tensor whole = fresh_statistics();
  rank_.backend->gradient_statistics(stream(), gradient, 128, 0, whole);
  const Tensor pieces = fresh_statistics();
  for (const int64_t begin : {512, 0, 896, 128}) {
    const int64_t end = begin == 128 ? 512 : begin == 512 ? 896 : begin == 0 ? 128 : 1000;
    rank_.backend->gradient_statistics(stream(), gradient.range(begin, end - begin), 128, begin,
                                       pieces);
  }
  std::vector<int64_t> words = whole.to_host<int64_t>();
  std::vector<int64_t> others = pieces.to_host<int64_t>();
  const double sum = round_exact_sum({words.data(), kExactSumWords});
  EXPECT_EQ(sum, round_exact_sum({others.data(), kExactSumWords}));
  double expected = 0;
  for (const float g : gradient.to_host<float>()) {
    expected += static_cast<double>(g) * g;
  }
  EXPECT_NEAR(sum, expected, 1e-9 * expected);
  EXPECT_EQ(words[kFirstNonFiniteWord], kAllFinite);
}

TEST_F(Plain, StatisticsNameTheFirstNonFiniteElement) {
  const Tensor statistics = fresh_statistics();
  rank_.backend->gradient_statistics(stream(), vector({1, 2, 3, kFloatNan}), 2, 100, statistics);
  EXPECT_EQ(statistics.to_host<int64_t>()[kFirstNonFiniteWord], 103);
  EXPECT_EQ(statistics.to_host<int64_t>()[kNonFiniteKindWord], kNaN);
  rank_.backend->gradient_statistics(stream(), vector({1, -kFloatInf, kFloatNan}), 2, 50,
                                     statistics);
  rank_.backend->gradient_statistics(stream(), vector({kFloatNan}), 2, 70, statistics);
  std::vector<int64_t> words = statistics.to_host<int64_t>();
  EXPECT_EQ(words[kFirstNonFiniteWord], 51);
  EXPECT_EQ(words[kNonFiniteKindWord], kInfinity);
  EXPECT_EQ(round_exact_sum({words.data(), kExactSumWords}), 5.0);
}

TEST_F(Plain, DropoutDependsOnTheGlobalSampleAlone) {
  const Tensor x = rank_.normal({4, 7}, DType::kFloat32, "x");
  const DropoutKey key{.seed = 5, .op = 3, .first_sample = 20, .probability = 0.4};
  const std::vector<float> whole = ops::dropout(x, key).to_host<float>();
  DropoutKey second_half = key;
  second_half.first_sample = 22;
  EXPECT_EQ(ops::dropout(x.range(14, 14).view({2, 7}), second_half).to_host<float>(),
            std::vector<float>(whole.begin() + 14, whole.end()));
  // The definition that every backend shares.
  const uint32_t bits = philox(5 ^ (3 * 0x9E3779B97F4A7C15), 21, 6 / 4)[6 % 4];
  EXPECT_EQ(whole[7 + 6] != 0.0F, uniform_from_bits(bits) >= 0.4);

  const Tensor ones = Tensor::empty(rank_.context, {100, 100}, DType::kFloat32);
  rank_.backend->fill(stream(), ones, 1.0);
  double sum = 0;
  for (const float value : ops::dropout(ones, key).to_host<float>()) {
    sum += value;
  }
  EXPECT_NEAR(sum / 10'000, 1.0, 0.03);
}

TEST_F(Plain, ReduceInOrderMayOverwriteASource) {
  std::vector<float> a = {1, 2};
  const std::vector<float> b = {5, 1};
  const std::vector<float> c = {3, 3};
  const auto bytes_of = [](const std::vector<float>& values) {
    return std::as_bytes(std::span(values)).data();
  };
  const std::byte* const sources[] = {bytes_of(a), bytes_of(b), bytes_of(c)};
  rank_.backend->reduce_in_order(sources, DType::kFloat32, 3.0,
                                 std::as_writable_bytes(std::span(a)));
  EXPECT_EQ(a, (std::vector<float>{3, 2}));
}

TEST_F(Plain, IndicesOutsideTheVocabularyAreRefused) {
  const Tensor table = rank_.normal({3, 2}, DType::kFloat32, "table");
  for (const int32_t index : {-1, 3}) {
    const Tensor indices = rank_.tensor<int32_t>({1}, {index});
    EXPECT_THROW(ops::embedding(indices, table), Error);
    EXPECT_THROW(ops::cross_entropy(rank_.normal({1, 3}, DType::kFloat32, "logits"), indices),
                 Error);
  }
}

TEST_F(Plain, HostMemoryMayBeReusedAfterACopyThatRunsLater) {
  TestRank lazy({.streams = StreamMode::kLazy});
  std::vector<float> values = {1, 2};
  const Tensor a = lazy.tensor<float>({2}, values);
  values = {0, 0};
  EXPECT_EQ(a.to_host<float>(), (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace zerolab

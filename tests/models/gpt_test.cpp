#include "models/gpt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "framework/core/error.h"
#include "framework/kernels/linear_call.h"
#include "framework/meta/backend.h"
#include "framework/plain/backend.h"
#include "framework/plain/plain_backend.h"
#include "tests/framework/gradient_check.h"

namespace zerolab {
namespace {

constexpr GptConfig kTiny = {
    .n_layer = 2, .n_head = 2, .n_embd = 4, .block_size = 5, .vocab_size = 7};

/// `count` tokens within a vocabulary of seven.
Tensor some_tokens(RankContext& context, const Shape& shape, int first) {
  std::vector<int32_t> values(shape.numel());
  std::iota(values.begin(), values.end(), first);
  for (int32_t& value : values) {
    value = value * value % 7;
  }
  return Tensor::from_host(context, shape, std::span<const int32_t>(values));
}

int64_t count(const Gpt& gpt) {
  int64_t sum = 0;
  for (const Parameter* parameter : gpt.parameters()) {
    sum += parameter->numel();
  }
  return sum;
}

TEST(Gpt, HasTheNamesAndShapesOfHuggingFace) {
  TestRank rank;
  GptConfig config = kTiny;
  config.n_layer = 1;
  config.tie_weights = false;
  const Gpt gpt({rank.context, 1, DType::kFloat32, ""}, config);
  std::string text;
  for (const Parameter* parameter : gpt.parameters()) {
    text += parameter->name() + parameter->shape().to_string() + "\n";
  }
  EXPECT_EQ(text,
            "wte.weight[7, 4]\n"
            "wpe.weight[5, 4]\n"
            "h.0.ln_1.weight[4]\nh.0.ln_1.bias[4]\n"
            "h.0.attn.c_attn.weight[4, 12]\nh.0.attn.c_attn.bias[12]\n"
            "h.0.attn.c_proj.weight[4, 4]\nh.0.attn.c_proj.bias[4]\n"
            "h.0.ln_2.weight[4]\nh.0.ln_2.bias[4]\n"
            "h.0.mlp.c_fc.weight[4, 16]\nh.0.mlp.c_fc.bias[16]\n"
            "h.0.mlp.c_proj.weight[16, 4]\nh.0.mlp.c_proj.bias[4]\n"
            "ln_f.weight[4]\nln_f.bias[4]\n"
            "lm_head.weight[7, 4]\n");
}

TEST(Gpt, Gpt2HasItsKnownNumberOfParameters) {
  const auto plain = make_plain_backend();
  const auto meta = make_meta_backend(*plain);
  RankContext context({}, *meta);
  const Gpt gpt({context, 1, DType::kFloat32, ""}, GptConfig{});
  EXPECT_EQ(count(gpt), 124'439'808);
  EXPECT_TRUE(gpt.parameters()[0]->used_twice());
  EXPECT_EQ(context.ledger().snapshot().current_of(Category::kParameters), 4 * 124'439'808LL);
}

TEST(Gpt, StartsWithTheDeviationsOfGpt2) {
  TestRank rank;
  const GptConfig config{.n_layer = 2, .n_head = 2, .n_embd = 64, .block_size = 8, .vocab_size = 9};
  const Gpt gpt({rank.context, 1, DType::kFloat32, ""}, config);
  for (const Parameter* parameter : gpt.parameters()) {
    double squares = 0;
    for (const float value : parameter->value().to_host<float>()) {
      squares += static_cast<double>(value) * value;
    }
    const double deviation = std::sqrt(squares / static_cast<double>(parameter->numel()));
    const std::string& name = parameter->name();
    const bool is_norm = name.find("ln_") != std::string::npos;
    const double expected = name.ends_with(".bias")          ? 0.0
                            : is_norm                        ? 1.0
                            : name.ends_with("_proj.weight") ? 0.01  // 0.02 / sqrt(2 * 2)
                                                             : 0.02;
    EXPECT_NEAR(deviation, expected, 0.1 * expected) << name;
  }
}

TEST(Gpt, GradientsOfTheWholeModelAreRight) {
  for (const bool tied : {true, false}) {
    TestRank rank;
    GptConfig config = kTiny;
    config.tie_weights = tied;
    config.bias = tied;
    config.dropout = 0.2;
    const Gpt gpt({rank.context, 1, DType::kFloat64, ""}, config);
    for (const Parameter* parameter : gpt.parameters()) {
      nn::initialize(parameter->value(), nn::Init::normal(0.5), 2, parameter->name());
    }
    const Tensor tokens = some_tokens(rank.context, {2, 3}, 1);
    const Tensor targets = some_tokens(rank.context, {2, 3}, 2);
    expect_gradients(rank, gpt.parameters(), [&] {
      return gpt.loss(tokens, targets, {.training = true, .seed = 3, .first_sample = 8});
    });
  }
}

TEST(Gpt, LossOfAFreshModelIsThatOfAUniformGuess) {
  TestRank rank;
  const Gpt gpt({rank.context, 1, DType::kFloat32, ""}, kTiny);
  const Tensor tokens = some_tokens(rank.context, {2, 5}, 1);
  EXPECT_NEAR(gpt.loss(tokens, tokens, {}).item(), std::log(7.0), 0.05);
}

TEST(Gpt, IsCausalAndSamplesAreIndependent) {
  TestRank rank;
  GptConfig config = kTiny;
  config.dropout = 0.3;
  const Gpt gpt({rank.context, 1, DType::kFloat32, ""}, config);
  const ForwardOptions options{.training = true, .seed = 3, .first_sample = 4};
  const Tensor tokens = rank.tensor<int32_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  const std::vector<float> logits = gpt.forward(tokens, options).to_host<float>();

  const Tensor changed = rank.tensor<int32_t>({2, 3}, {1, 2, 0, 4, 5, 6});
  const std::vector<float> others = gpt.forward(changed, options).to_host<float>();
  for (int i = 0; i < 42; ++i) {
    if (i / 7 == 2) {
      continue;  // the changed token's own row
    }
    EXPECT_EQ(logits[i], others[i]) << i;
  }
  // The second sample by itself, as another rank would compute it.
  const Tensor second = rank.tensor<int32_t>({1, 3}, {4, 5, 6});
  EXPECT_EQ(gpt.forward(second, {.training = true, .seed = 3, .first_sample = 5}).to_host<float>(),
            std::vector<float>(logits.begin() + 21, logits.end()));
  EXPECT_NE(gpt.forward(tokens, {}).to_host<float>(), logits);
}

/// What a forward and backward leaves in the ledger.
MemoryLedger::Snapshot ledger_after_training(Backend& backend, StreamMode streams, DType dtype) {
  RankContext context({.streams = streams}, backend);
  GptConfig config{.n_layer = 3, .n_head = 2, .n_embd = 8, .block_size = 6, .vocab_size = 7};
  config.dropout = 0.1;
  const Gpt gpt({context, 1, dtype, ""}, config);
  const Tensor tokens = some_tokens(context, {2, 6}, 1);
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    const Tensor loss = gpt.loss(tokens, tokens, {.training = true});
    const Tensor seed = Tensor::empty_like(loss);
    backend.fill(context.compute(), seed, 1.0);
    autograd::backward(loss, seed);
  }
  return context.ledger().snapshot();
}

TEST(Gpt, DryRunCountsTheSameBytes) {
  const auto plain = make_plain_backend();
  const auto meta = make_meta_backend(*plain);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const auto real = ledger_after_training(*plain, StreamMode::kImmediate, dtype);
    for (const auto& other : {ledger_after_training(*meta, StreamMode::kImmediate, dtype),
                              ledger_after_training(*plain, StreamMode::kLazy, dtype)}) {
      EXPECT_EQ(other.peak, real.peak);
      EXPECT_EQ(other.at_total_peak, real.at_total_peak);
      EXPECT_EQ(other.current, real.current);
      EXPECT_EQ(other.total_peak, real.total_peak);
    }
    EXPECT_EQ(real.peak_of(Category::kLogits), 2 * 6 * 7 * size_of(dtype));  // held once
    EXPECT_EQ(real.current_of(Category::kLogits), 0);
  }
}

/// The loss and all gradients of one training step, from the same weights in every dtype.
std::vector<std::vector<double>> step_of(DType dtype, const RankOptions& options) {
  TestRank rank(options);
  GptConfig config = kTiny;
  config.dropout = 0.1;
  const Gpt coarse({rank.context, 1, DType::kBFloat16, ""}, config);
  const Gpt gpt({rank.context, 1, dtype, ""}, config);
  for (size_t i = 0; i < gpt.parameters().size(); ++i) {
    rank.backend->copy(rank.context.compute(), coarse.parameters()[i]->value(),
                       gpt.parameters()[i]->value());
  }
  const Tensor tokens = some_tokens(rank.context, {2, 5}, 1);
  const Tensor loss = gpt.loss(tokens, tokens, {.training = true});
  autograd::backward(loss, rank.ones_like(loss));
  std::vector<std::vector<double>> results = {{loss.item()}};
  for (const Parameter* parameter : gpt.parameters()) {
    results.push_back(rank.numbers(parameter->gradient()));
  }
  return results;
}

TEST(Gpt, PoisonAndLazyStreamsChangeNoBit) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const auto expected = step_of(dtype, {});
    EXPECT_EQ(step_of(dtype, {.poison = true}), expected);
    EXPECT_EQ(step_of(dtype, {.poison = true, .streams = StreamMode::kLazy, .lazy_seed = 3}),
              expected);
  }
}

TEST(Gpt, In16BitsTheStepIsNearThatInFp64) {
  const auto expected = step_of(DType::kFloat64, {});
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const auto results = step_of(dtype, {});
    for (size_t i = 0; i < results.size(); ++i) {
      // Tens of roundings lie between a weight and the loss.
      expect_near_largest(results[i], expected[i], 8 * tolerance_of(dtype),
                          fmt::format("result {} in {}", i, name_of(dtype)));
    }
  }
}

/// Stands for a backend whose linear kernels take memory.
class Hungry final : public PlainBackend {
 public:
  int64_t linear_workspace(const LinearCall& call) const override { return 1000 + call.rows; }
};

TEST(Gpt, DryRunTakesTheImitatedWorkspace) {
  const Hungry hungry;
  const auto meta = make_meta_backend(hungry);
  const auto ledger = ledger_after_training(*meta, StreamMode::kImmediate, DType::kFloat32);
  EXPECT_EQ(ledger.peak_of(Category::kWorkspace), 1012);
  EXPECT_EQ(ledger.current_of(Category::kWorkspace), 0);
}

TEST(Gpt, RefusesWhatCannotBe) {
  TestRank rank;
  const nn::Scope scope{rank.context, 1, DType::kFloat32, ""};
  GptConfig config = kTiny;
  config.n_head = 3;
  EXPECT_THROW(Gpt(scope, config), Error);
  config = kTiny;
  config.vocab_size = 0;
  EXPECT_THROW(Gpt(scope, config), Error);
  config = kTiny;
  config.dropout = 1.0;
  EXPECT_THROW(Gpt(scope, config), Error);
  const Gpt gpt(scope, kTiny);
  EXPECT_THROW(gpt.forward(some_tokens(rank.context, {1, 6}, 1), {}), Error);
  EXPECT_THROW(gpt.forward(some_tokens(rank.context, {5}, 1), {}), Error);
}

}  // namespace
}  // namespace zerolab

#include "apps/train_gpt/inference/evaluate.h"

#include <gtest/gtest.h>

#include "tests/framework/test_rank.h"

namespace zerolab::app {
namespace {

constexpr int64_t kBlock = 6;
constexpr GptConfig kSmall = {
    .n_layer = 1, .n_head = 2, .n_embd = 8, .block_size = kBlock, .vocab_size = 7};
constexpr int32_t kStart = 5;

/// The sum over windows, each by itself.
double loss_by_hand(TestRank& rank, const Gpt& gpt, const std::vector<uint16_t>& text) {
  std::vector<int32_t> tokens = {kStart};
  tokens.insert(tokens.end(), text.begin(), text.end());
  double sum = 0.0;
  for (size_t begin = 0; begin + 1 < tokens.size(); begin += kBlock) {
    const size_t length = std::min<size_t>(kBlock, tokens.size() - 1 - begin);
    const Shape shape{1, static_cast<int64_t>(length)};
    const auto part = [&](size_t from) {
      return rank.tensor<int32_t>(
          shape, {tokens.begin() + from, tokens.begin() + from + static_cast<int64_t>(length)});
    };
    sum += static_cast<double>(length) * gpt.loss(part(begin), part(begin + 1), {}).item();
  }
  return sum / static_cast<double>(text.size());
}

TEST(MeanLoss, IsTheSumOverAllWindowsForAnyLength) {
  TestRank rank;
  const Gpt gpt({rank.context, 1, DType::kFloat32, ""}, kSmall);
  for (const Parameter* parameter : gpt.parameters()) {
    nn::initialize(parameter->value(), nn::Init::normal(0.5), 2, parameter->name());
  }
  for (const int64_t length : {int64_t{1}, kBlock - 1, kBlock, kBlock + 1, 3 * kBlock + 4}) {
    std::vector<uint16_t> text(length);
    for (int64_t i = 0; i < length; ++i) {
      text[i] = static_cast<uint16_t>(i * i % 7);
    }
    const double expected = loss_by_hand(rank, gpt, text);
    const auto dataset = data::TokenDataset::from_tokens(text);
    for (const int64_t batch_size : {1, 2, 8}) {
      EXPECT_NEAR(mean_loss(gpt, {dataset, 0, length}, kStart, batch_size), expected, 1e-6)
          << length << " tokens, batches of " << batch_size;
    }
  }
}

}  // namespace
}  // namespace zerolab::app

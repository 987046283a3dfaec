#include "models/gpt_generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/core/error.h"
#include "framework/onednn/backend.h"
#include "framework/plain/backend.h"
#include "tests/framework/test_rank.h"

namespace zerolab {
namespace {

constexpr GptConfig kSmall = {
    .n_layer = 3, .n_head = 3, .n_embd = 24, .block_size = 9, .vocab_size = 11};

/// A model whose logits differ enough to have one largest.
struct SmallGpt {
  explicit SmallGpt(std::unique_ptr<Backend> made, DType dtype = DType::kFloat32,
                    const GptConfig& config = kSmall)
      : backend(std::move(made)), gpt({context, 1, dtype, ""}, config) {
    for (const Parameter* parameter : gpt.parameters()) {
      nn::initialize(parameter->value(), nn::Init::normal(0.3), 2, parameter->name());
    }
  }

  /// The last position's logits of a plain forward.
  std::vector<float> expected(const std::vector<int32_t>& window) {
    const Tensor tokens =
        Tensor::from_host(context, Shape{1, std::ssize(window)}, std::span<const int32_t>(window));
    const Tensor logits = gpt.forward(tokens, {});
    const Tensor wide = Tensor::empty(context, logits.shape(), DType::kFloat32);
    backend->copy(context.compute(), logits, wide);
    const std::vector<float> all = wide.to_host<float>();
    return {all.end() - gpt.config().vocab_size, all.end()};
  }

  std::unique_ptr<Backend> backend;
  RankContext context{{}, *backend};
  Gpt gpt;
};

int32_t largest(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

void expect_near(const std::vector<float>& got, const std::vector<float>& expected,
                 float tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], tolerance) << i;
  }
}

/// Greedy, far beyond a full window: with a cache, without, and by a plain forward of the window.
void expect_same_tokens(SmallGpt& model, float tolerance) {
  for (const size_t prompt_length : {1, 4, 9, 20}) {
    SCOPED_TRACE(prompt_length);
    std::vector<int32_t> prompt(prompt_length);
    for (size_t i = 0; i < prompt.size(); ++i) {
      prompt[i] = static_cast<int32_t>(i * i % 11);
    }
    GptGenerator cached(model.gpt, prompt);
    GptGenerator whole(model.gpt, prompt, false);
    for (int i = 0; i < 40; ++i) {
      SCOPED_TRACE(i);
      ASSERT_EQ(cached.window(), whole.window());
      const std::vector<float> logits = cached.logits();
      const std::vector<float> others = whole.logits();
      expect_near(logits, model.expected(cached.window()), tolerance);
      expect_near(others, logits, tolerance);
      ASSERT_EQ(largest(logits), largest(others));
      cached.append(largest(logits));
      whole.append(largest(others));
    }
  }
}

TEST(GptGenerator, TheCacheChangesNoToken) {
  SmallGpt model(make_plain_backend());
  expect_same_tokens(model, 1e-5F);
  if (onednn_is_available()) {
    SmallGpt fast(make_onednn_backend());
    expect_same_tokens(fast, 1e-5F);
  }
}

TEST(GptGenerator, In16BitsTheLogitsAreNear) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    SmallGpt model(make_plain_backend(), dtype);
    GptGenerator generator(model.gpt, std::vector<int32_t>{1, 2, 3});
    for (const int32_t token : {4, 5, 6}) {
      expect_near(generator.logits(), model.expected(generator.window()), 0.1F);
      generator.append(token);
    }
  }
}

TEST(GptGenerator, TheWindowBeginsWithThePromptsEndAndSlidesByHalf) {
  SmallGpt model(make_plain_backend());
  GptGenerator generator(model.gpt, std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  EXPECT_EQ(generator.window(), (std::vector<int32_t>{2, 3, 4, 5, 6, 7, 8, 9, 10}));
  generator.append(1);
  EXPECT_EQ(generator.window(), (std::vector<int32_t>{7, 8, 9, 10, 1}));
  generator.append(2);
  EXPECT_EQ(generator.window(), (std::vector<int32_t>{7, 8, 9, 10, 1, 2}));
}

TEST(GptGenerator, AWindowOfOneTokenForgetsAll) {
  GptConfig config = kSmall;
  config.block_size = 1;
  SmallGpt model(make_plain_backend(), DType::kFloat32, config);
  GptGenerator generator(model.gpt, std::vector<int32_t>{3, 5});
  expect_near(generator.logits(), model.expected({5}), 1e-6F);
  generator.append(7);
  expect_near(generator.logits(), model.expected({7}), 1e-6F);
}

TEST(GptGenerator, RefusesWhatCannotBe) {
  SmallGpt model(make_plain_backend());
  EXPECT_THROW(GptGenerator(model.gpt, std::vector<int32_t>{}), Error);
  GptCache cache(model.context, kSmall, DType::kFloat32);
  const auto tokens = [&](const Shape& shape) {
    return Tensor::zeros(model.context, shape, DType::kInt32);
  };
  EXPECT_THROW(model.gpt.next_logits(tokens({2, 1}), cache), Error);
  model.gpt.next_logits(tokens({1, 3}), cache);
  EXPECT_EQ(cache.length(), 3);
  EXPECT_THROW(model.gpt.next_logits(tokens({1, 2}), cache), Error);
  for (int i = 0; i < 6; ++i) {
    model.gpt.next_logits(tokens({1, 1}), cache);
  }
  EXPECT_THROW(model.gpt.next_logits(tokens({1, 1}), cache), Error);  // full
}

}  // namespace
}  // namespace zerolab

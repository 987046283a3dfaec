#include "models/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "framework/core/error.h"

namespace zerolab {
namespace {

/// Logits of the probabilities 0.1, 0.4, 0.2, 0.3.
const std::vector<float> kLogits = {std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)};
constexpr int kDraws = 20'000;

/// How often each token is drawn, of 1.
std::map<int32_t, double> shares(const SamplingOptions& options,
                                 const std::vector<float>& logits = kLogits) {
  std::map<int32_t, double> shares;
  for (int position = 0; position < kDraws; ++position) {
    shares[sample_token(logits, options, position)] += 1.0 / kDraws;
  }
  return shares;
}

void expect_shares(const std::map<int32_t, double>& got,
                   const std::map<int32_t, double>& expected) {
  EXPECT_EQ(got.size(), expected.size());
  for (const auto& [token, share] : expected) {
    EXPECT_NEAR(got.at(token), share, 0.015) << token;  // more than four standard deviations
  }
}

TEST(Sampling, DrawsByProbability) {
  expect_shares(shares({}), {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
}

TEST(Sampling, TemperatureSharpensAndFlattens) {
  // Probabilities to the power of 1 / temperature: here their squares, of sum 0.3.
  expect_shares(shares({.temperature = 0.5}),
                {{0, 0.01 / 0.3}, {1, 0.16 / 0.3}, {2, 0.04 / 0.3}, {3, 0.09 / 0.3}});
  expect_shares(shares({.temperature = 1e9}), {{0, 0.25}, {1, 0.25}, {2, 0.25}, {3, 0.25}});
}

TEST(Sampling, TopKKeepsTheLikeliest) {
  expect_shares(shares({.top_k = 2}), {{1, 0.4 / 0.7}, {3, 0.3 / 0.7}});
  expect_shares(shares({.top_k = 99}), {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
}

TEST(Sampling, TopPKeepsTheLikeliestThatReachIt) {
  expect_shares(shares({.top_p = 0.65}), {{1, 0.4 / 0.7}, {3, 0.3 / 0.7}});
  expect_shares(shares({.top_p = 0.75}), {{1, 0.4 / 0.9}, {3, 0.3 / 0.9}, {2, 0.2 / 0.9}});
  expect_shares(shares({.top_p = 1e-9}), {{1, 1.0}});
  // Of what top_k leaves, 0.4 / 0.7 of it is the likeliest.
  expect_shares(shares({.top_k = 2, .top_p = 0.5}), {{1, 1.0}});
}

TEST(Sampling, GreedyIsTheLikeliestAndOfEqualOnesTheFirst) {
  EXPECT_EQ(sample_token(kLogits, {.temperature = 0.0}, 7), 1);
  const std::vector<float> equal = {0.0F, 2.0F, 2.0F};
  EXPECT_EQ(sample_token(equal, {.temperature = 0.0}, 7), 1);
  for (int position = 0; position < 100; ++position) {
    EXPECT_EQ(sample_token(equal, {.top_k = 1}, position), 1);
    EXPECT_EQ(sample_token(equal, {.temperature = 1e-300}, position) == 0, false);
  }
}

TEST(Sampling, SeedAndPositionAreAllThatCounts) {
  int same = 0;
  for (int position = 0; position < 100; ++position) {
    const int32_t token = sample_token(kLogits, {.seed = 3}, position);
    EXPECT_EQ(token, sample_token(kLogits, {.seed = 3}, position));
    same += token == sample_token(kLogits, {.seed = 4}, position) ? 1 : 0;
  }
  EXPECT_LT(same, 60);  // 30 by chance
}

TEST(Sampling, RefusesWhatCannotBe) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float logit : {kInfinity, -kInfinity, std::nanf("")}) {
    EXPECT_THROW(sample_token(std::vector<float>{0.0F, logit}, {}, 0), Error);
  }
  EXPECT_THROW(sample_token(std::vector<float>{}, {}, 0), Error);
  for (const SamplingOptions& options :
       {SamplingOptions{.temperature = -1.0}, SamplingOptions{.temperature = kInfinity},
        SamplingOptions{.top_k = -1}, SamplingOptions{.top_p = 0.0}, SamplingOptions{.top_p = 1.5},
        SamplingOptions{.top_p = std::nan("")}}) {
    EXPECT_THROW(sample_token(kLogits, options, 0), Error);
  }
}

}  // namespace
}  // namespace zerolab

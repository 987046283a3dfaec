#include "data/permutation.h"

#include <gtest/gtest.h>

#include <vector>

#include "framework/core/error.h"

namespace zerolab::data {
namespace {

std::vector<int64_t> all_of(int64_t size, uint64_t seed, uint64_t epoch) {
  const Permutation permutation(size, seed, epoch);
  std::vector<int64_t> values;
  for (int64_t i = 0; i < size; ++i) {
    values.push_back(permutation(i));
  }
  return values;
}

class PermutationOfSize : public ::testing::TestWithParam<int64_t> {};

TEST_P(PermutationOfSize, IsABijection) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    std::vector<bool> seen(static_cast<size_t>(GetParam()));
    for (const int64_t value : all_of(GetParam(), seed, seed + 1)) {
      ASSERT_GE(value, 0);
      ASSERT_LT(value, GetParam());
      ASSERT_FALSE(seen[static_cast<size_t>(value)]) << value << " twice";
      seen[static_cast<size_t>(value)] = true;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, PermutationOfSize,
                         ::testing::Values(1, 2, 3, 4, 5, 7, 8, 13, 15, 16, 17, 63, 64, 65, 101,
                                           255, 256, 257, 1000, 1023, 1024, 1025, 4099, 10007));

TEST(PermutationTest, DependsOnSeedAndEpochOnly) {
  const auto base = all_of(101, 7, 0);
  EXPECT_EQ(all_of(101, 7, 0), base);
  EXPECT_NE(all_of(101, 7, 1), base);
  EXPECT_NE(all_of(101, 8, 0), base);
  EXPECT_NE(all_of(101, 7ULL + (1ULL << 40), 0), base);
  EXPECT_NE(all_of(101, 7, 1ULL << 40), base);
}

// A checkpoint resumes in the order of its first run only while these values stand.
TEST(PermutationTest, GivesTheRecordedOrder) {
  EXPECT_EQ(all_of(10, 1337, 0), (std::vector<int64_t>{8, 9, 7, 0, 3, 5, 1, 6, 2, 4}));
}

TEST(PermutationTest, SendsEveryIndexEverywhereEquallyOften) {
  constexpr int64_t kSize = 10;
  constexpr int kEpochs = 4000;
  std::vector<int> counts(kSize * kSize);
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const auto values = all_of(kSize, 3, epoch);
    for (int64_t i = 0; i < kSize; ++i) {
      ++counts[static_cast<size_t>(i * kSize + values[static_cast<size_t>(i)])];
    }
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, kEpochs / kSize, 100);  // five standard deviations
  }
}

TEST(PermutationTest, StaysInsideAHugeRange) {
  constexpr int64_t kSize = (int64_t{1} << 40) + 1;
  const Permutation permutation(kSize, 1, 2);
  for (const int64_t index : {int64_t{0}, int64_t{1}, kSize / 2, kSize - 1}) {
    EXPECT_GE(permutation(index), 0);
    EXPECT_LT(permutation(index), kSize);
  }
}

TEST(PermutationTest, RefusesToPermuteNothing) { EXPECT_THROW(Permutation(0, 1, 1), Error); }

}  // namespace
}  // namespace zerolab::data

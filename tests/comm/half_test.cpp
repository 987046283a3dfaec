#include <tuple>

#include "framework/core/philox.h"
#include "tests/comm/ranks.h"

namespace zerolab {
namespace {

/// Reductions of 16-bit buffers: dtype, number of ranks, elements a slice. Slices of 5,003 pass the
/// size up to which the last rank to arrive moves everything.
class HalfReductions : public testing::TestWithParam<std::tuple<DType, int, int64_t>> {
 protected:
  DType dtype() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
  int64_t numel() const { return std::get<2>(GetParam()) * ranks(); }

  float rounded(float value) const {
    return dtype() == DType::kBFloat16 ? static_cast<float>(BFloat16(value))
                                       : static_cast<float>(static_cast<Float16>(value));
  }

  std::vector<float> inputs(int rank) const {
    std::vector<float> result(numel());
    for (int64_t i = 0; i < numel(); ++i) {
      result[i] = rounded(uniform_from_bits(philox(rank, 0, i)[0]) - 0.25F);
    }
    return result;
  }

  /// In fp32 in rank order, rounded at the end, or as it must not be: after each addition.
  std::vector<float> sums(double divisor, bool round_each) const {
    std::vector<float> result = inputs(0);
    for (int rank = 1; rank < ranks(); ++rank) {
      const std::vector<float> addends = inputs(rank);
      for (int64_t i = 0; i < numel(); ++i) {
        const float sum = result[i] + addends[i];
        result[i] = round_each ? rounded(sum) : sum;
      }
    }
    for (float& element : result) {
      element = rounded(element / static_cast<float>(divisor));
    }
    return result;
  }
};

TEST_P(HalfReductions, AddInFp32AndRoundOnce) {
  constexpr double kDivisor = 3.0;
  const std::vector<float> expected = sums(kDivisor, false);
  if (ranks() > 2 && numel() > 100) {
    EXPECT_NE(expected, sums(kDivisor, true)) << "the inputs do not tell the two apart";
  }
  on_ranks(ranks(), [&](RankContext& context, Communicator& communicator) {
    Stream& stream = context.compute();
    const int rank = context.rank();
    const auto make = [&] { return tensor_of(context, inputs(rank), dtype()); };
    const Tensor reduced = make();
    const Tensor scattered = make();
    const Tensor rooted = make();
    communicator.all_reduce(stream, reduced, kDivisor, kGradientTag);
    communicator.reduce_scatter(stream, scattered, kDivisor, kGradientTag);
    const int64_t slice = numel() / ranks();
    const std::vector<float> own = floats_of(scattered.range(rank * slice, slice));
    communicator.all_gather(stream, scattered, kGradientTag);
    communicator.reduce(stream, rooted, ranks() - 1, kDivisor, kGradientTag);
    EXPECT_EQ(floats_of(reduced), expected);
    EXPECT_EQ(own, std::vector<float>(expected.begin() + rank * slice,
                                      expected.begin() + (rank + 1) * slice));
    EXPECT_EQ(floats_of(scattered), expected);
    EXPECT_EQ(floats_of(rooted), rank == ranks() - 1 ? expected : inputs(rank));
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, HalfReductions,
                         testing::Combine(testing::Values(DType::kBFloat16, DType::kFloat16),
                                          testing::Values(1, 2, 3, 4, 7),
                                          testing::Values(0, 1, 101, 5003)));

/// Every rank's sum of one element a rank.
float all_reduced(DType dtype, const std::vector<float>& by_rank) {
  std::vector<float> results(by_rank.size());
  on_ranks(static_cast<int>(by_rank.size()), [&](RankContext& context, Communicator& communicator) {
    const Tensor buffer = tensor_of(context, {by_rank[context.rank()]}, dtype);
    communicator.all_reduce(context.compute(), buffer, 1.0, kGradientTag);
    results[context.rank()] = floats_of(buffer)[0];
  });
  EXPECT_EQ(results, std::vector<float>(by_rank.size(), results[0]));
  return results[0];
}

TEST(HalfSums, KeepWhatEachRankAddsBelowTheLastBit) {
  // A quarter of 1's last bit from each of five ranks: rounded after each addition it would be
  // lost.
  const auto quarters = [](float quarter) {
    return std::vector<float>{1, quarter, quarter, quarter, quarter, quarter};
  };
  EXPECT_EQ(all_reduced(DType::kBFloat16, quarters(0x1p-9F)), 1 + 0x1p-7F);
  EXPECT_EQ(all_reduced(DType::kFloat16, quarters(0x1p-12F)), 1 + 0x1p-10F);
}

TEST(HalfSums, AreMadeInRankOrder) {
  // The small number is lost in fp32 only if the big one comes before its negative.
  EXPECT_EQ(all_reduced(DType::kBFloat16, {1, 0x1p24F, -0x1p24F}), 0);
  EXPECT_EQ(all_reduced(DType::kBFloat16, {0x1p24F, -0x1p24F, 1}), 1);
  EXPECT_EQ(all_reduced(DType::kFloat16, {0x1p-24F, 0x1p15F, -0x1p15F}), 0);
  EXPECT_EQ(all_reduced(DType::kFloat16, {0x1p15F, -0x1p15F, 0x1p-24F}), 0x1p-24F);
}

TEST(HalfSums, MayPassTheLargestFp16WhileTheyAreMade) {
  EXPECT_EQ(all_reduced(DType::kFloat16, {60000, 60000, -59968}), 60032);
}

}  // namespace
}  // namespace zerolab

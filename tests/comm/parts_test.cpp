#include <tuple>

#include "tests/comm/ranks.h"

namespace zerolab {
namespace {

/// Gathers of a part of each slice: number of ranks, elements a slice. Slices of 5,003 pass the
/// size up to which the last rank to arrive moves everything.
class Parts : public testing::TestWithParam<std::tuple<int, int64_t>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  int64_t slice() const { return std::get<1>(GetParam()); }
};

TEST_P(Parts, AreTakenFromTheirRankAndNothingElseIsTouched) {
  const int64_t third = slice() / 3;
  const SlicePart parts[] = {{},          {0, slice()},       {0, 0},        {slice(), -1},
                             {third, -1}, {third, third + 1}, {0, third + 1}};
  on_ranks(ranks(), [&](RankContext& context, Communicator& communicator) {
    for (const SlicePart& part : parts) {
      if (part.begin + part.numel > slice()) {
        continue;  // slices of no elements
      }
      const int64_t end = part.numel < 0 ? slice() : part.begin + part.numel;
      const Tensor buffer = tensor_of_rank(context, slice() * ranks());
      communicator.ledger().reset();
      communicator.all_gather(context.compute(), buffer, kParameterTag, part);
      const std::vector<float> result = buffer.to_host<float>();
      for (int64_t i = 0; i < buffer.numel(); ++i) {
        const int64_t within = i % slice();
        const bool gathered = within >= part.begin && within < end;
        const auto owner = static_cast<int>(i / slice());
        ASSERT_EQ(result[i], value(gathered ? owner : context.rank(), i)) << i;
      }
      const auto entry =
          communicator.ledger().entries().at({CollectiveOp::kAllGather, Purpose::kParameter});
      EXPECT_EQ(entry.calls, 1);
      EXPECT_EQ(entry.bytes_sent, (end - part.begin) * 4 * (ranks() - 1));
      EXPECT_EQ(entry.bytes_received, entry.bytes_sent);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, Parts,
                         testing::Combine(testing::Values(1, 2, 3, 4, 7),
                                          testing::Values(0, 1, 2, 13, 5003)));

TEST(Part, OfSixteenBitSlicesTogetherMakeTheWholeGather) {
  constexpr int64_t kSlice = 37;
  on_ranks(3, [](RankContext& context, Communicator& communicator) {
    const auto make = [&] {
      return tensor_of(context, values(context.rank(), 3 * kSlice), DType::kBFloat16);
    };
    const Tensor whole = make();
    const Tensor pieces = make();
    communicator.all_gather(context.compute(), whole, kParameterTag);
    for (int64_t begin = 0; begin < kSlice; begin += 5) {
      communicator.all_gather(context.compute(), pieces, kParameterTag,
                              {begin, std::min<int64_t>(5, kSlice - begin)});
    }
    EXPECT_EQ(floats_of(pieces), floats_of(whole));
  });
}

TEST(Part, OutsideASliceIsRefused) {
  on_ranks(2, [](RankContext& context, Communicator& communicator) {
    const Tensor buffer = tensor_of_rank(context, 8);
    const auto error = [&](const SlicePart& part) {
      return error_of(
          [&] { communicator.all_gather(context.compute(), buffer, kParameterTag, part); });
    };
    EXPECT_EQ(error({2, 3}),
              "[comm] all_gather(parameter, bucket 0): no such part of a slice; got elements "
              "[2, 5), expected a range within 4 elements");
    for (const SlicePart& part : {SlicePart{5, -1}, {5, 0}, {-1, 2}, {-1, -1}, {1, -2}}) {
      EXPECT_NE(error(part), "") << part.begin << " " << part.numel;
    }
    communicator.barrier();
  });
}

}  // namespace
}  // namespace zerolab

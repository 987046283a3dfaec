#include <map>
#include <tuple>

#include "framework/comm/meta.h"
#include "framework/meta/backend.h"
#include "framework/plain/backend.h"
#include "tests/comm/ranks.h"

namespace zerolab {
namespace {

constexpr CollectiveOp kMovingOps[] = {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter,
                                       CollectiveOp::kAllGather, CollectiveOp::kReduce,
                                       CollectiveOp::kBroadcast};

SlicePart part_of(int64_t slice) { return {.begin = slice / 3, .numel = slice / 2}; }

/// The last is a gather of a part of each slice, for another purpose.
void call_every_verb(RankContext& context, Communicator& communicator, int64_t numel, DType dtype,
                     int root) {
  const int64_t sliced = numel * communicator.size();
  Stream& stream = context.compute();
  const Tensor whole = Tensor::zeros(context, Shape{numel}, dtype);
  const Tensor slices = Tensor::zeros(context, Shape{sliced}, dtype);
  communicator.all_reduce(stream, whole, 1.0, kGradientTag);
  communicator.reduce_scatter(stream, slices, 1.0, kGradientTag);
  communicator.all_gather(stream, slices, kGradientTag);
  communicator.reduce(stream, whole, root, 1.0, kGradientTag);
  communicator.broadcast(stream, whole, root, kGradientTag);
  communicator.all_gather(stream, slices, {.purpose = Purpose::kState}, part_of(numel));
  stream.synchronize();
}

class CountedBytes : public testing::TestWithParam<std::tuple<int, int64_t, DType>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  int64_t numel() const { return std::get<1>(GetParam()); }
  DType dtype() const { return std::get<2>(GetParam()); }
};

TEST_P(CountedBytes, EqualTheFormulaAndTheDryRun) {
  const int root = ranks() / 2;
  std::vector<std::map<CommunicationLedger::Key, CommunicationLedger::Entry>> ledgers(ranks());
  on_ranks(ranks(), [&](RankContext& context, Communicator& communicator) {
    call_every_verb(context, communicator, numel(), dtype(), root);
    ledgers[context.rank()] = communicator.ledger().entries();
  });
  const std::unique_ptr<Backend> imitated = make_plain_backend();
  const std::unique_ptr<Backend> backend = make_meta_backend(*imitated);
  const auto expect_formula = [&](CollectiveOp op, Purpose purpose, int64_t elements) {
    const int64_t bytes = elements * size_of(dtype());
    int64_t sent = 0;
    int64_t received = 0;
    for (int rank = 0; rank < ranks(); ++rank) {
      RankContext context({.rank = rank, .world_size = ranks()}, *backend);
      const std::unique_ptr<Communicator> dry = make_meta_communicator(context);
      call_every_verb(context, *dry, numel(), dtype(), root);
      const auto entry = ledgers[rank].at({op, purpose});
      const auto dry_entry = dry->ledger().entries().at({op, purpose});
      EXPECT_EQ(entry.calls, 1);
      EXPECT_EQ(dry_entry.calls, 1);
      EXPECT_EQ(entry.bytes_sent,
                bytes_sent_by(op, elements, size_of(dtype()), rank, ranks(), root));
      EXPECT_EQ(entry.bytes_sent, dry_entry.bytes_sent);
      EXPECT_EQ(entry.bytes_received, dry_entry.bytes_received) << name_of(op) << rank;
      sent += entry.bytes_sent;
      received += entry.bytes_received;
    }
    const int64_t legs = op == CollectiveOp::kAllReduce ? 2 : 1;
    EXPECT_EQ(sent, legs * bytes * (ranks() - 1));
    EXPECT_EQ(sent, received);
  };
  for (const CollectiveOp op : kMovingOps) {
    const bool sliced = op == CollectiveOp::kReduceScatter || op == CollectiveOp::kAllGather;
    expect_formula(op, Purpose::kGradient, numel() * (sliced ? ranks() : 1));
  }
  expect_formula(CollectiveOp::kAllGather, Purpose::kState, part_of(numel()).numel * ranks());
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, CountedBytes,
    testing::Combine(testing::Values(1, 2, 3, 4, 7), testing::Values(0, 1, 5, 101, 9001),
                     testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16)));

TEST(BytesSent, AreARingsVolumePerRankWhereTheBufferDivides) {
  constexpr int64_t kNumel = 840;
  for (const int size : {2, 3, 4, 5, 7, 8}) {
    for (int rank = 0; rank < size; ++rank) {
      const int64_t leg = kNumel * 4 / size * (size - 1);
      EXPECT_EQ(bytes_sent_by(CollectiveOp::kAllReduce, kNumel, 4, rank, size, -1), 2 * leg);
      EXPECT_EQ(bytes_sent_by(CollectiveOp::kReduceScatter, kNumel, 4, rank, size, -1), leg);
      EXPECT_EQ(bytes_sent_by(CollectiveOp::kAllGather, kNumel, 4, rank, size, -1), leg);
      EXPECT_EQ(bytes_sent_by(CollectiveOp::kBarrier, 0, 4, rank, size, -1), 0);
    }
  }
}

TEST(BytesSent, FollowAllReducesUnevenSegmentsInEveryDtype) {
  // 7 elements on 3 ranks: chunks of 2, 2 and 3; the others' chunks, then the own one twice.
  for (const int64_t element : {2, 4}) {
    const auto sent = [&](int rank) {
      return bytes_sent_by(CollectiveOp::kAllReduce, 7, element, rank, 3, -1);
    };
    EXPECT_EQ(sent(0), (5 + 4) * element);
    EXPECT_EQ(sent(1), (5 + 4) * element);
    EXPECT_EQ(sent(2), (4 + 6) * element);
  }
}

TEST(Ledger, KeepsPurposesApartAndStartsAgain) {
  on_ranks(2, [](RankContext& context, Communicator& communicator) {
    const Tensor buffer = tensor_of_rank(context, 6);
    communicator.all_gather(context.compute(), buffer, kParameterTag);
    communicator.all_gather(context.compute(), buffer, kParameterTag);
    communicator.reduce_scatter(context.compute(), buffer, 2.0, kGradientTag);
    communicator.barrier();
    CommunicationLedger& ledger = communicator.ledger();
    EXPECT_EQ(ledger.bytes_sent(Purpose::kParameter), 24);
    EXPECT_EQ(ledger.bytes_sent(Purpose::kGradient), 12);
    EXPECT_EQ(ledger.bytes_sent(Purpose::kControl), 0);
    EXPECT_EQ(ledger.entries().at({CollectiveOp::kAllGather, Purpose::kParameter}).calls, 2);
    EXPECT_EQ(ledger.entries().at({CollectiveOp::kBarrier, Purpose::kControl}).calls, 1);
    ledger.reset();
    EXPECT_TRUE(ledger.entries().empty());
  });
}

}  // namespace
}  // namespace zerolab

#include <gtest/gtest.h>

#include <fmt/core.h>

#include <array>
#include <mutex>

#include "framework/plain/backend.h"
#include "tests/spine/equivalence/exact_model.h"
#include "zero/cost_model.h"

namespace zerolab::test {
namespace {

using Entries = std::map<CommunicationLedger::Key, CommunicationLedger::Entry>;

/// What one step of one rank has counted, and what the layout says of it.
struct Counted {
  Entries entries;
  int64_t gradients = 0;
  int64_t parameters = 0;
  zero::CommunicationBytes predicted;
  int64_t num_params = 0;
  int64_t padding = 0;
  int64_t num_buckets = 0;
};

std::vector<Counted> count_a_step(const ModelFactory& model, const RunSetup& setup) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  std::vector<Counted> counted(setup.world_size);
  on_engines(*backend, model, setup, [&](EngineRank& rank) {
    rank.communicator.ledger().reset();
    rank.accumulate(setup, 0);
    rank.engine.step({.learning_rate = 0.01});
    rank.engine.wait_for_parameters();
    rank.context.communication().synchronize();
    const CommunicationLedger& ledger = rank.communicator.ledger();
    const zero::Layout& layout = rank.engine.layout();
    const int r = rank.communicator.rank();
    counted[r] = {.entries = ledger.entries(),
                  .gradients = ledger.bytes_sent(Purpose::kGradient),
                  .parameters = ledger.bytes_sent(Purpose::kParameter),
                  .predicted = zero::communication_bytes(layout, rank.engine.plan(), r),
                  .num_params = layout.num_params(),
                  .padding = layout.padding(),
                  .num_buckets = static_cast<int64_t>(layout.buckets().size())};
  });
  return counted;
}

int64_t calls(const Counted& counted, CollectiveOp op, Purpose purpose) {
  const auto entry = counted.entries.find({op, purpose});
  return entry == counted.entries.end() ? 0 : entry->second.calls;
}

/// docs/design.md 6: how often a rank sends Ψ(N−1)/N elements in a step of k micro-batches.
int64_t legs_of(const zero::EngineOptions& options) {
  const int64_t k = options.gradient_accumulation_steps;
  const bool each = options.reduce_each_micro_batch;
  switch (options.stage) {
    case 0:
      return each ? 2 * k : 2;
    case 1:
      return options.reduce_scatter ? (each ? k + 1 : 2) : (each ? 2 * k + 1 : 3);
    default:
      return options.reduce_scatter ? k + 1 : 2 * k + 1;
  }
}

struct CommunicationCase {
  int stage;
  int world_size;
};

class CommunicationBytes : public testing::TestWithParam<CommunicationCase> {};

TEST_P(CommunicationBytes, CountedIsPredictedAndTheFormulaPlusPadding) {
  for (const int k : {1, 2, 3}) {
    for (const bool reduce_scatter : {true, false}) {
      for (const bool each : {true, false}) {
        for (const bool bucketed : {true, false}) {
          RunSetup setup;
          setup.world_size = GetParam().world_size;
          setup.engine.layout =
              bucketed ? zero::LayoutKind::kBucketed : zero::LayoutKind::kContiguous;
          setup.engine.allgather_bucket_size = bucketed ? 0 : 1000;
          setup.engine.contiguous_gradients = k != 2;
          setup.engine.stage = GetParam().stage;
          setup.engine.gradient_accumulation_steps = k;
          setup.engine.reduce_scatter = reduce_scatter;
          setup.engine.reduce_each_micro_batch = each;
          setup.engine.overlap_comm = each == reduce_scatter;
          setup.engine.reduce_bucket_size = 333;
          SCOPED_TRACE(setup.to_string());
          int64_t sent = 0;
          const std::vector<Counted> ranks = count_a_step(tiny_gpt(true), setup);
          for (const Counted& rank : ranks) {
            EXPECT_EQ(rank.gradients, rank.predicted.gradients);
            EXPECT_EQ(rank.parameters, rank.predicted.parameters);
            sent += rank.gradients + rank.parameters;
          }
          // All ranks together: N · legs · Ψ(N−1)/N elements, whole.
          const int64_t legs = legs_of(setup.engine);
          const int64_t peers = setup.world_size - 1;
          EXPECT_EQ(sent, 4 * legs * peers * (ranks[0].num_params + ranks[0].padding));
          EXPECT_DOUBLE_EQ(
              ranks[0].predicted.formula,
              4.0 * static_cast<double>(legs * peers * ranks[0].num_params) / setup.world_size);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Stages, CommunicationBytes,
    testing::Values(CommunicationCase{0, 1}, CommunicationCase{1, 1}, CommunicationCase{2, 1},
                    CommunicationCase{0, 2}, CommunicationCase{1, 2}, CommunicationCase{2, 2},
                    CommunicationCase{0, 3}, CommunicationCase{1, 3}, CommunicationCase{2, 3},
                    CommunicationCase{0, 4}, CommunicationCase{1, 4}, CommunicationCase{2, 4},
                    CommunicationCase{0, 7}, CommunicationCase{1, 7}, CommunicationCase{2, 7}),
    [](const testing::TestParamInfo<CommunicationCase>& info) {
      return fmt::format("stage{}_N{}", info.param.stage, info.param.world_size);
    });

/// Without padding the bytes are the paper's, exactly: 2Ψ, 3Ψ, 2Ψ and 2Ψ, each times (N−1)/N.
TEST(CommunicationBytes, WithoutPaddingCountedIsTheFormula) {
  const ExactModel model = {.shapes = flat_shapes({128, 512, 1024})};
  const std::vector<std::array<int64_t, 3>> expected = {{0, 1, 2}, {1, 0, 3}, {1, 1, 2}, {2, 1, 2}};
  for (const auto& [stage, reduce_scatter, legs] : expected) {
    for (const zero::LayoutKind layout :
         {zero::LayoutKind::kBucketed, zero::LayoutKind::kContiguous}) {
      RunSetup setup = exact_setup(4);
      setup.engine.layout = layout;
      setup.engine.stage = static_cast<int>(stage);
      setup.engine.reduce_scatter = reduce_scatter == 1;
      setup.engine.reduce_bucket_size = 600;
      setup.engine.alignment = 32;
      for (const Counted& rank : count_a_step(model.factory(), setup)) {
        ASSERT_EQ(rank.padding, 0);
        EXPECT_EQ(rank.gradients + rank.parameters, 4 * legs * 1664 * 3 / 4) << setup.to_string();
      }
    }
  }
}

/// docs/faults.md 12: as many collectives as buckets, none empty, none stale.
TEST(CommunicationBytes, Row12_AsManyCollectivesAsBuckets) {
  for (const bool overlap : {false, true}) {
    for (const int64_t bucket : {1, 333, 1'000'000}) {
      for (const int stage : {0, 1, 2}) {
        RunSetup setup;
        setup.world_size = 3;
        setup.engine.stage = stage;
        setup.engine.gradient_accumulation_steps = 2;
        setup.engine.overlap_comm = overlap;
        setup.engine.reduce_bucket_size = bucket;
        SCOPED_TRACE(setup.to_string());
        for (const Counted& rank : count_a_step(tiny_gpt(true), setup)) {
          const CollectiveOp op =
              stage == 0 ? CollectiveOp::kAllReduce : CollectiveOp::kReduceScatter;
          EXPECT_EQ(calls(rank, op, Purpose::kGradient), (stage == 2 ? 2 : 1) * rank.num_buckets);
          EXPECT_EQ(calls(rank, CollectiveOp::kAllGather, Purpose::kParameter),
                    stage == 0 ? 0 : rank.num_buckets);
          EXPECT_EQ(calls(rank, CollectiveOp::kAllGather, Purpose::kControl), 1);
          EXPECT_EQ(rank.entries.size(), stage == 0 ? 2U : 3U);
        }
      }
    }
  }
}

/// docs/faults.md 13: the option shows in what is counted, 1.0x of data parallelism against 1.5x.
TEST(CommunicationBytes, Row13_ReduceScatterShowsInOperationsAndBytes) {
  RunSetup setup;
  setup.world_size = 4;
  setup.engine.reduce_bucket_size = 333;
  const auto sent_by_all = [](const std::vector<Counted>& ranks) {
    int64_t sent = 0;
    for (const Counted& rank : ranks) {
      sent += rank.gradients + rank.parameters;
    }
    return sent;
  };
  const int64_t ddp = sent_by_all(count_a_step(tiny_gpt(false), setup));
  for (const int stage : {1, 2}) {
    setup.engine.stage = stage;
    setup.engine.reduce_scatter = true;
    const std::vector<Counted> scattered = count_a_step(tiny_gpt(false), setup);
    EXPECT_EQ(sent_by_all(scattered), ddp);
    EXPECT_EQ(calls(scattered[0], CollectiveOp::kAllReduce, Purpose::kGradient), 0);
    EXPECT_GT(calls(scattered[0], CollectiveOp::kReduceScatter, Purpose::kGradient), 0);
    setup.engine.reduce_scatter = false;
    const std::vector<Counted> reduced = count_a_step(tiny_gpt(false), setup);
    EXPECT_EQ(2 * sent_by_all(reduced), 3 * ddp);
    EXPECT_GT(calls(reduced[0], CollectiveOp::kAllReduce, Purpose::kGradient), 0);
    EXPECT_EQ(calls(reduced[0], CollectiveOp::kReduceScatter, Purpose::kGradient), 0);
  }
}

}  // namespace
}  // namespace zerolab::test

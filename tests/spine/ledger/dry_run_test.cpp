#include <gtest/gtest.h>

#include <fmt/core.h>

#include "framework/plain/backend.h"
#include "tests/spine/equivalence/harness.h"

namespace zerolab::test {
namespace {

struct DryRunCase {
  int stage;
  bool fast;
  DType dtype = DType::kFloat32;
};

class DryRun : public testing::TestWithParam<DryRunCase> {};

/// A meta run of one rank without peers predicts what each rank of the real run holds, by category
/// and to the byte, and what it sends.
TEST_P(DryRun, HasTheLedgersOfTheRealRun) {
  const std::unique_ptr<Backend> backend = GetParam().fast ? fast_backend() : make_plain_backend();
  for (const bool tied : {true, false}) {
    for (const int64_t bucket : {333, 1'000'000}) {
      for (const int micro_batches : {1, 2}) {
        RunSetup setup;
        setup.world_size = 3;
        setup.engine.stage = GetParam().stage;
        setup.engine.gradient_accumulation_steps = micro_batches;
        setup.engine.gradient_clipping = 1.0;
        setup.engine.reduce_bucket_size = bucket;
        setup.engine.layout = tied ? zero::LayoutKind::kBucketed : zero::LayoutKind::kContiguous;
        setup.engine.contiguous_gradients = bucket != 333;
        SCOPED_TRACE(setup.to_string());
        const auto two_steps = [&setup](EngineRank& rank) {
          for (int step = 0; step < 2; ++step) {
            rank.accumulate(setup, step);
            rank.engine.step({.learning_rate = 0.01});
          }
          return rank.context.ledger().snapshot();
        };
        std::vector<MemoryLedger::Snapshot> real(3);
        std::vector<int64_t> sent(3);
        const auto bytes_sent = [](EngineRank& rank) {
          const CommunicationLedger& ledger = rank.communicator.ledger();
          return ledger.bytes_sent(Purpose::kGradient) + ledger.bytes_sent(Purpose::kParameter) +
                 ledger.bytes_sent(Purpose::kControl);
        };
        on_engines(*backend, tiny_gpt(tied, GetParam().dtype), setup, [&](EngineRank& rank) {
          real[rank.communicator.rank()] = two_steps(rank);
          sent[rank.communicator.rank()] = bytes_sent(rank);
        });
        for (int r = 0; r < 3; ++r) {
          on_meta_engine(
              *backend, tiny_gpt(tied, GetParam().dtype), setup, r, [&](EngineRank& rank) {
                const MemoryLedger::Snapshot dry = two_steps(rank);
                for (int i = 0; i < kNumCategories; ++i) {
                  const auto category = static_cast<Category>(i);
                  EXPECT_EQ(dry.peak_of(category), real[r].peak_of(category)) << name_of(category);
                  EXPECT_EQ(dry.current_of(category), real[r].current_of(category))
                      << name_of(category);
                }
                EXPECT_EQ(dry.total_peak, real[r].total_peak);
                EXPECT_GT(dry.peak_of(Category::kActivations), 0);
                EXPECT_GT(dry.peak_of(Category::kLogits), 0);
                EXPECT_EQ(bytes_sent(rank), sent[r]);
              });
        }
      }
    }
  }
}

std::string name_of_dry_run_case(const testing::TestParamInfo<DryRunCase>& info) {
  return fmt::format("stage{}_{}_{}", info.param.stage, info.param.fast ? "fast" : "plain",
                     name_of(info.param.dtype));
}

INSTANTIATE_TEST_SUITE_P(
    Stages, DryRun,
    testing::Values(DryRunCase{0, false}, DryRunCase{1, false}, DryRunCase{2, false},
                    DryRunCase{0, true}, DryRunCase{1, true}, DryRunCase{2, true},
                    DryRunCase{0, false, DType::kBFloat16}, DryRunCase{1, false, DType::kFloat16},
                    DryRunCase{2, false, DType::kBFloat16}, DryRunCase{0, true, DType::kFloat16},
                    DryRunCase{1, true, DType::kBFloat16}, DryRunCase{2, true, DType::kFloat16}),
    name_of_dry_run_case);

}  // namespace
}  // namespace zerolab::test

#include <gtest/gtest.h>

#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "framework/plain/backend.h"
#include "models/gpt.h"
#include "tests/spine/equivalence/harness.h"
#include "zero/cost_model.h"

namespace zerolab::test {
namespace {

MemoryLedger::Snapshot snapshot_after_a_step(EngineRank& rank, const RunSetup& setup) {
  rank.accumulate(setup, 0);
  rank.engine.step({.learning_rate = 0.1});
  return rank.context.ledger().snapshot();
}

/// docs/design.md 6: buffers of stage 2 take no more than the two largest ordinary buckets and the
/// tied parameter's.
int64_t largest_buckets(const zero::Layout& layout, const zero::StagePlan& plan) {
  std::vector<int64_t> ordinary = {0, 0};
  int64_t own = 0;
  for (const zero::Bucket& bucket : layout.buckets()) {
    if (layout.parameters()[bucket.parameters.front()].own_bucket) {
      own += bucket.numel;
    } else {
      ordinary.push_back(bucket.numel);
    }
  }
  std::ranges::sort(ordinary, std::greater());
  return (ordinary[0] + ordinary[1] + own) * size_of(plan.communication_dtype);
}

struct BucketCase {
  bool tied;
  bool overlap;
  bool packed;
  int64_t bucket;
};

class BucketLedger : public testing::TestWithParam<BucketCase> {};

TEST_P(BucketLedger, PeakIsWithinTheLimitAndThePredictedToTheByte) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  for (const int world_size : {1, 2, 3}) {
    for (const int micro_batches : {1, 2}) {
      RunSetup setup;
      setup.world_size = world_size;
      setup.engine.stage = 2;
      setup.engine.gradient_accumulation_steps = micro_batches;
      setup.engine.overlap_comm = GetParam().overlap;
      setup.engine.contiguous_gradients = !GetParam().packed;
      setup.engine.reduce_bucket_size = GetParam().bucket;
      SCOPED_TRACE(setup.to_string());
      on_engines(*backend, tiny_gpt(GetParam().tied), setup, [&](EngineRank& rank) {
        const MemoryLedger::Snapshot memory = snapshot_after_a_step(rank, setup);
        EXPECT_LE(memory.peak_of(Category::kGradientBuckets),
                  largest_buckets(rank.engine.layout(), rank.engine.plan()))
            << rank.engine.layout().to_string();
        EXPECT_GT(memory.peak_of(Category::kGradientBuckets), 0);
        EXPECT_EQ(rank.engine.bucket_memory().excess_buffers(), 0);
        if (rank.communicator.rank() == 0) {
          on_meta_engine(*backend, tiny_gpt(GetParam().tied), setup, 0, [&](EngineRank& dry) {
            EXPECT_EQ(snapshot_after_a_step(dry, setup).peak_of(Category::kGradientBuckets),
                      memory.peak_of(Category::kGradientBuckets))
                << rank.engine.layout().to_string();
          });
        }
      });
    }
  }
}

std::vector<BucketCase> bucket_cases() {
  std::vector<BucketCase> cases;
  for (const bool tied : {true, false}) {
    for (const bool overlap : {true, false}) {
      for (const bool packed : {true, false}) {
        for (const int64_t bucket : {1, 100, 333, 600, 1000, 1'000'000}) {
          cases.push_back({tied, overlap, packed, bucket});
        }
      }
    }
  }
  return cases;
}

std::string name_of_bucket_case(const testing::TestParamInfo<BucketCase>& info) {
  return fmt::format("{}_{}_{}_bucket{}", info.param.tied ? "tied" : "untied",
                     info.param.overlap ? "overlap" : "plain",
                     info.param.packed ? "packed" : "written", info.param.bucket);
}

INSTANTIATE_TEST_SUITE_P(Matrix, BucketLedger, testing::ValuesIn(bucket_cases()),
                         name_of_bucket_case);

TEST(BucketLedger, BucketsThatAreViewsCostNothing) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  for (const int stage : {0, 1}) {
    RunSetup setup;
    setup.world_size = 2;
    setup.engine.stage = stage;
    setup.engine.reduce_bucket_size = 333;
    on_engines(*backend, tiny_gpt(true), setup, [&](EngineRank& rank) {
      const MemoryLedger::Snapshot memory = snapshot_after_a_step(rank, setup);
      EXPECT_EQ(memory.peak_of(Category::kGradientBuckets), 0);
    });
  }
}

/// docs/faults.md 29: the layers of a GPT of 12 × 256 with a tied embedding of 8192 × 256, four
/// ranks and four micro-batches.
ModelFactory gpt_of_fault_29() {
  return [](RankContext& context) {
    auto gpt = std::make_unique<Gpt>(
        nn::Scope{.context = context, .name = ""},
        GptConfig{.n_layer = 12, .n_head = 4, .n_embd = 256, .block_size = 64, .vocab_size = 8192});
    const Gpt* model = gpt.get();
    return TestModel{std::move(gpt), [model](RankContext& rank, int64_t, int64_t rows) {
                       const Tensor tokens = Tensor::empty(rank, Shape{rows, 64}, DType::kInt32);
                       return model->loss(tokens, tokens, {});
                     }};
  };
}

struct Row29 {
  MemoryLedger::Snapshot memory;
  int64_t num_params = 0;
  int64_t padding = 0;
  int64_t largest_buckets = 0;
  int64_t predicted_gradients = 0;
};

Row29 run_row_29(int stage, int64_t bucket, bool overlap) {
  const std::unique_ptr<Backend> imitated = fast_backend();
  RunSetup setup;
  setup.world_size = 4;
  setup.engine.stage = stage;
  setup.engine.gradient_accumulation_steps = 4;
  setup.engine.reduce_bucket_size = bucket;
  setup.engine.overlap_comm = overlap;
  Row29 result;
  on_meta_engine(*imitated, gpt_of_fault_29(), setup, 0, [&](EngineRank& rank) {
    result.memory = snapshot_after_a_step(rank, setup);
    const zero::Layout& layout = rank.engine.layout();
    result.num_params = layout.num_params();
    result.padding = layout.padding();
    result.largest_buckets = largest_buckets(layout, rank.engine.plan());
    result.predicted_gradients = zero::state_bytes(layout, rank.engine.plan(), 2)[1].bytes;
  });
  return result;
}

int64_t gradient_bytes(const Row29& row) {
  return row.memory.peak_of(Category::kGradients) + row.memory.peak_of(Category::kGradientBuckets);
}

TEST(BucketLedger, Row29_ZeroTwoIsSmallerThanZeroOneThanDdp) {
  for (const bool overlap : {false, true}) {
    const Row29 ddp = run_row_29(0, 0, overlap);
    const Row29 one = run_row_29(1, 0, overlap);
    const Row29 two = run_row_29(2, 0, overlap);
    EXPECT_GT(ddp.num_params, 11'000'000);
    EXPECT_LT(two.memory.total_peak, one.memory.total_peak);
    EXPECT_LT(one.memory.total_peak, ddp.memory.total_peak);
    EXPECT_LE(gradient_bytes(two), 4 * two.num_params / 4 + 4 * two.padding + two.largest_buckets);
    EXPECT_EQ(two.memory.peak_of(Category::kGradients), two.predicted_gradients);
    EXPECT_EQ(gradient_bytes(one), 4 * (one.num_params + one.padding));
    EXPECT_LT(gradient_bytes(two), gradient_bytes(one));
  }
}

TEST(BucketLedger, Row29_ABucketOfAHundredModelsCostsNoMoreThanTheModel) {
  for (const bool overlap : {false, true}) {
    const Row29 huge = run_row_29(2, 1'200'000'000, overlap);
    EXPECT_EQ(huge.memory.peak_of(Category::kGradientBuckets),
              4 * (huge.num_params + huge.padding));
  }
}

}  // namespace
}  // namespace zerolab::test

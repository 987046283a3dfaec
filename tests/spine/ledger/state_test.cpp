#include <gtest/gtest.h>

#include <fmt/core.h>

#include <mutex>

#include "framework/plain/backend.h"
#include "tests/spine/equivalence/exact_model.h"
#include "zero/cost_model.h"

namespace zerolab::test {
namespace {

constexpr int kAdamStates = 2;

struct StateCase {
  int stage;
  int world_size;
};

std::vector<StateCase> state_cases() {
  std::vector<StateCase> cases;
  for (const int stage : {0, 1, 2}) {
    for (const int world_size : {1, 2, 3, 4, 7}) {
      cases.push_back({stage, world_size});
    }
  }
  return cases;
}

/// docs/design.md 6, times N so that it is whole: N · 16Ψ; N · 8Ψ + 8Ψ; N · 4Ψ + 12Ψ.
int64_t formula_of_all_ranks(int stage, int64_t world_size, int64_t num_params) {
  switch (stage) {
    case 0:
      return world_size * 16 * num_params;
    case 1:
      return world_size * 8 * num_params + 8 * num_params;
    default:
      return world_size * 4 * num_params + 12 * num_params;
  }
}

class StateLedger : public testing::TestWithParam<StateCase> {};

TEST_P(StateLedger, TrackedBytesAreTheFormulaPlusPaddingToTheByte) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  const ExactModel model = {.shapes = flat_shapes({7, 31, 1000, 1, 129, 128, 3})};
  const int64_t num_params = 7 + 31 + 1000 + 1 + 129 + 128 + 3;
  for (const int64_t bucket : {1, 200, 100'000}) {
    for (const int64_t alignment : {1, 128}) {
      RunSetup setup = exact_setup(GetParam().world_size, 2);
      setup.engine.layout =
          bucket == 200 ? zero::LayoutKind::kContiguous : zero::LayoutKind::kBucketed;
      setup.optimizer = {};
      setup.engine.stage = GetParam().stage;
      setup.engine.reduce_bucket_size = bucket;
      setup.engine.alignment = alignment;
      SCOPED_TRACE(setup.to_string());
      std::mutex mutex;
      int64_t sum = 0;
      double padding = 0.0;
      int64_t layout_padding = 0;
      on_engines(*backend, model.factory(), setup, [&](EngineRank& rank) {
        rank.accumulate(setup, 0);
        rank.engine.step({.learning_rate = 0.1});
        rank.engine.wait_for_parameters();
        const MemoryLedger::Snapshot memory = rank.context.ledger().snapshot();
        const std::lock_guard lock(mutex);
        for (const zero::StateBytes& state :
             zero::state_bytes(rank.engine.layout(), rank.engine.plan(), kAdamStates)) {
          // The module's own tensors were given back when the engine moved the parameters.
          EXPECT_EQ(memory.current_of(state.category), state.bytes) << name_of(state.category);
          sum += memory.current_of(state.category);
          padding += state.padding();
        }
        EXPECT_EQ(memory.current_of(Category::kGradientBuckets), 0);
        EXPECT_EQ(memory.current_of(Category::kActivations), 0);
        EXPECT_EQ(rank.engine.layout().num_params(), num_params);
        layout_padding = rank.engine.layout().padding();
      });
      const auto [stage, world_size] = GetParam();
      const int64_t of_padding = formula_of_all_ranks(stage, world_size, layout_padding);
      EXPECT_EQ(sum, formula_of_all_ranks(stage, world_size, num_params) + of_padding);
      EXPECT_NEAR(padding, static_cast<double>(of_padding), 1e-6);
      EXPECT_TRUE(layout_padding > 0 || alignment == 1);
    }
  }
}

std::string name_of_state_case(const testing::TestParamInfo<StateCase>& info) {
  return fmt::format("stage{}_N{}", info.param.stage, info.param.world_size);
}

INSTANTIATE_TEST_SUITE_P(Stages, StateLedger, testing::ValuesIn(state_cases()), name_of_state_case);

/// docs/design.md 6: at k = 1 a rank keeps 16Ψ, 4Ψ + 12Ψ/N and 2Ψ + 14Ψ/N bytes in 16-bit training;
/// with more micro-batches gradients are fp32. Here N divides Ψ, and nothing is padded.
TEST(StateLedger, MixedPrecisionHoldsThePapersBytes) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const int k : {1, 2}) {
      for (const int world_size : {1, 2, 4}) {
        for (const int stage : {0, 1, 2}) {
          for (const bool reduce_scatter : {true, false}) {
            RunSetup setup;
            setup.world_size = world_size;
            setup.engine.stage = stage;
            setup.engine.reduce_scatter = reduce_scatter;
            setup.engine.gradient_accumulation_steps = k;
            setup.engine.alignment = 1;
            setup.engine.reduce_bucket_size = 600;
            SCOPED_TRACE(setup.to_string());
            on_engines(*backend, tiny_gpt(true, dtype), setup, [&](EngineRank& rank) {
              rank.accumulate(setup, 0);
              rank.engine.step({.learning_rate = 0.1});
              rank.engine.wait_for_parameters();
              const MemoryLedger::Snapshot memory = rank.context.ledger().snapshot();
              const zero::Layout& layout = rank.engine.layout();
              int64_t sum = 0;
              double padding = 0.0;
              for (const zero::StateBytes& state :
                   zero::state_bytes(layout, rank.engine.plan(), kAdamStates)) {
                EXPECT_EQ(memory.current_of(state.category), state.bytes)
                    << name_of(state.category);
                sum += memory.current_of(state.category);
                padding += state.padding();
              }
              const auto psi = static_cast<double>(layout.num_params());
              const double g = k == 1 ? 2.0 : 4.0;
              const double n = world_size;
              const double formula = stage == 0   ? (14.0 + g) * psi
                                     : stage == 1 ? (2.0 + g) * psi + 12.0 * psi / n
                                                  : 2.0 * psi + (12.0 + g) * psi / n;
              EXPECT_DOUBLE_EQ(static_cast<double>(sum), formula + padding);
              EXPECT_LE(padding, 18.0 * static_cast<double>(layout.padding()));
            });
          }
        }
      }
    }
  }
}

/// Lion keeps one state where AdamW keeps two: 4Ψ bytes, partitioned like them from ZeRO-1 on.
TEST(StateLedger, LionHoldsHalfOfAdamsState) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  constexpr int64_t kNumParams = 120;
  for (const int stage : {0, 1, 2}) {
    RunSetup setup = exact_setup(3);
    setup.engine.alignment = 1;
    setup.engine.stage = stage;
    setup.optimizer = {.name = "lion"};
    const ExactModel model = {.shapes = flat_shapes({kNumParams})};
    on_engines(*backend, model.factory(), setup, [&](EngineRank& rank) {
      const int64_t held = rank.context.ledger().snapshot().current_of(Category::kOptimizerState);
      EXPECT_EQ(held, 4 * kNumParams / (stage == 0 ? 1 : 3));
      for (const zero::StateBytes& state :
           zero::state_bytes(rank.engine.layout(), rank.engine.plan(), 1)) {
        if (state.category == Category::kOptimizerState) {
          EXPECT_EQ(held, state.bytes);
        }
      }
    });
  }
}

/// The states are what the optimizer names: SGD without momentum has none.
TEST(StateLedger, SgdHoldsNoState) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  const ExactModel model = {.shapes = flat_shapes({100})};
  on_engines(*backend, model.factory(), exact_setup(2), [&](EngineRank& rank) {
    EXPECT_EQ(rank.context.ledger().snapshot().current_of(Category::kOptimizerState), 0);
  });
}

}  // namespace
}  // namespace zerolab::test

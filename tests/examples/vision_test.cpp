#include "examples/vision/vision.h"

#include <gtest/gtest.h>

#include "tests/data/test_files.h"

namespace zerolab::examples {
namespace {

TEST(Vision, IsLearntUnderEveryStageWithTheSameBitsAndTheLedgerOfTheFormula) {
  VisionOptions options;
  options.stage = 0;
  const VisionResult expected = train_vision(options);
  EXPECT_GT(expected.accuracy, 0.95);
  EXPECT_LT(expected.losses.back(), 0.3 * expected.losses.front());
  for (const int stage : {0, 1, 2}) {
    SCOPED_TRACE(stage);
    options.stage = stage;
    const VisionResult result = train_vision(options);
    EXPECT_EQ(result.losses, expected.losses);
    EXPECT_EQ(result.weights, expected.weights);
    EXPECT_EQ(result.accuracy, expected.accuracy);
    // AdamW's two states of 4 bytes, partitioned from ZeRO-1 on; gradients from ZeRO-2 on.
    const int64_t elements = result.num_params + result.padding;
    EXPECT_EQ(result.memory.current_of(Category::kParameters), 4 * elements);
    EXPECT_EQ(result.memory.current_of(Category::kGradients),
              4 * elements / (stage >= 2 ? options.ranks : 1));
    EXPECT_EQ(result.memory.current_of(Category::kOptimizerState),
              8 * elements / (stage >= 1 ? options.ranks : 1));
    EXPECT_EQ(result.memory.current_of(Category::kActivations), 0);
  }
}

TEST(Vision, GoesOnFromACheckpointUnderAnotherStage) {
  for (const std::string optimizer : {"adamw", "lion"}) {
    SCOPED_TRACE(optimizer);
    VisionOptions options;
    options.steps = 6;
    options.optimizer = optimizer;
    options.learning_rate = 1e-3;
    const VisionResult expected = train_vision(options);
    const data::TempDir folder;
    options.checkpoints = folder.path("checkpoints");
    options.steps = 2;
    options.stage = 0;
    EXPECT_EQ(train_vision(options).losses.size(), 2U);
    options.steps = 6;
    options.stage = 2;
    const VisionResult resumed = train_vision(options);
    EXPECT_EQ(resumed.losses.size(), 4U);
    EXPECT_EQ(resumed.weights, expected.weights);
  }
}

}  // namespace
}  // namespace zerolab::examples

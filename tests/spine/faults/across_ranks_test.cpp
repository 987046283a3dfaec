#include <gtest/gtest.h>

#include "framework/plain/backend.h"
#include "tests/spine/faults/variants.h"

namespace zerolab::test {
namespace {

/// docs/design.md 8: where the loss is an integer sum, gradients do not depend on weights and the
/// divisor comes after the sum, loss, norm and weights are the same bits at any number of ranks and
/// micro-batches that share a global batch.
TEST(AcrossRanks, TheSameGlobalBatchGivesTheSameBitsAtAnyN) {
  constexpr int64_t kGlobalBatch = 168;
  const std::unique_ptr<Backend> backend = make_plain_backend();
  ExactModel model = {.shapes = flat_shapes({7, 31, 300, 1}),
                      .coefficient = ExactModel::multiples_of(kGlobalBatch)};
  model.used_twice = {0};
  for (const char* optimizer : {"sgd", "adamw"}) {
    for (const double clip : {0.0, 0.1}) {
      RunSetup alone = exact_setup(1);
      alone.micro_batch = kGlobalBatch;
      alone.optimizer.name = optimizer;
      alone.engine.gradient_clipping = clip;
      const Outcome expected = run(*backend, model.factory(), alone);
      // Later losses are sums of weights that clipping or AdamW has rounded.
      const bool exact_losses = clip == 0.0 && alone.optimizer.name == "sgd";
      for (const int world_size : {1, 2, 3, 4, 7}) {
        for (const int k : {1, 2, 3}) {
          if (kGlobalBatch % (world_size * k) != 0) {
            continue;
          }
          RunSetup base = alone;
          base.world_size = world_size;
          base.engine.gradient_accumulation_steps = k;
          base.engine.reduce_bucket_size = 100;
          base.micro_batch = kGlobalBatch / (world_size * k);
          for (const RunSetup& setup : stages_of(base)) {
            Outcome outcome = run(*backend, model.factory(), setup);
            EXPECT_EQ(outcome.losses[0], expected.losses[0]);
            if (!exact_losses) {
              outcome.losses = expected.losses;
            }
            EXPECT_EQ(difference(outcome, expected), "") << setup.to_string();
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace zerolab::test

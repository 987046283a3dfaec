#include <gtest/gtest.h>

#include <fmt/core.h>

#include <algorithm>

#include "framework/core/error.h"
#include "framework/plain/backend.h"
#include "tests/checkpoint/saved_engine.h"
#include "tests/data/test_files.h"
#include "tests/spine/equivalence/exact_model.h"

namespace zerolab::test {
namespace {

RunSetup setup_of(int stage, int world_size, DType dtype = DType::kFloat32) {
  RunSetup setup;
  setup.world_size = world_size;
  setup.steps = 2;
  setup.engine.stage = stage;
  setup.engine.reduce_bucket_size = 333;
  setup.engine.gradient_clipping = 0.1;
  if (dtype == DType::kFloat16) {
    setup.engine.loss_scale = optim::dynamic_loss_scale();
    setup.engine.loss_scale.window = 1;  // so that the scale moves
  }
  return setup;
}

/// Weights after four steps without a stop.
std::vector<float> undisturbed(Backend& backend, const ModelFactory& model, RunSetup setup) {
  setup.steps = 4;
  return run(backend, model, setup).weights;
}

struct Change {
  int stage;
  int world_size;
  zero::LayoutKind layout = zero::LayoutKind::kBucketed;
  int64_t bucket_size = 333;
  bool overlap = false;
};

class Resume : public testing::TestWithParam<DType> {};

/// Same N: the same bits, whatever else changes.
TEST_P(Resume, SameBitsAtAnyStageLayoutAndBucketSize) {
  const std::unique_ptr<Backend> backend = fast_backend();
  const ModelFactory model = tiny_gpt(true, GetParam());
  for (const int world_size : {1, 3}) {
    const std::vector<float> expected =
        undisturbed(*backend, model, setup_of(0, world_size, GetParam()));
    for (const int saved_stage : {0, 1, 2}) {
      const data::TempDir folder;
      train_and_save(*backend, model, setup_of(saved_stage, world_size, GetParam()),
                     folder.path(""));
      for (const Change& change :
           {Change{0, world_size}, Change{1, world_size, zero::LayoutKind::kContiguous, 1000},
            Change{2, world_size, zero::LayoutKind::kBucketed, 1, true},
            Change{2, world_size, zero::LayoutKind::kContiguous, 77}}) {
        RunSetup setup = setup_of(change.stage, world_size, GetParam());
        setup.engine.layout = change.layout;
        setup.engine.reduce_bucket_size = change.bucket_size;
        setup.engine.overlap_comm = change.overlap;
        EXPECT_EQ(resume_and_train(*backend, model, setup, folder.path("")), expected)
            << "saved at stage " << saved_stage << ", resumed: " << setup.to_string();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Resume,
                         testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

/// Another N with the same global batch: within the rounding of sums of other lengths.
TEST(ResumeMatrix, FromAnyStageAndWorldSizeToAnyOther) {
  const std::unique_ptr<Backend> backend = fast_backend();
  const ModelFactory model = tiny_gpt(true);
  const auto with_batch = [](int stage, int world_size) {
    RunSetup setup = setup_of(stage, world_size);
    setup.micro_batch = 60 / world_size;
    return setup;
  };
  const std::vector<float> expected = undisturbed(*backend, model, with_batch(0, 1));
  for (const int saved_stage : {0, 1, 2}) {
    for (const int saved_ranks : {1, 2, 4}) {
      const data::TempDir folder;
      train_and_save(*backend, model, with_batch(saved_stage, saved_ranks), folder.path(""));
      for (const int stage : {0, 1, 2}) {
        for (const int ranks : {1, 3, 4, 5}) {
          const std::vector<float> weights =
              resume_and_train(*backend, model, with_batch(stage, ranks), folder.path(""));
          ASSERT_EQ(weights.size(), expected.size());
          float largest = 0.0f;
          for (size_t i = 0; i < weights.size(); ++i) {
            largest = std::max(largest, std::abs(weights[i] - expected[i]));
          }
          EXPECT_LT(largest, 2e-4f)
              << saved_stage << "x" << saved_ranks << " -> " << stage << "x" << ranks;
        }
      }
    }
  }
}

/// Where sums are exact in any order, another N changes no bit.
TEST(ResumeMatrix, AnotherWorldSizeIsExactWhereSumsAre) {
  const std::unique_ptr<Backend> backend = fast_backend();
  const ModelFactory model = ExactModel{.shapes = flat_shapes({300, 7, 129})}.factory();
  const auto setup_of_ranks = [](int stage, int world_size, int steps) {
    RunSetup setup = exact_setup(world_size);
    setup.engine.stage = stage;
    setup.engine.reduce_bucket_size = 100;
    setup.micro_batch = 60 / world_size;
    setup.steps = steps;
    return setup;
  };
  const std::vector<float> expected = run(*backend, model, setup_of_ranks(0, 1, 5)).weights;
  for (const int saved_ranks : {1, 2, 4}) {
    const data::TempDir folder;
    train_and_save(*backend, model, setup_of_ranks(1, saved_ranks, 2), folder.path(""));
    for (const int ranks : {1, 3, 4, 5}) {
      EXPECT_EQ(resume_and_train(*backend, model, setup_of_ranks(2, ranks, 3), folder.path("")),
                expected)
          << saved_ranks << " -> " << ranks;
    }
  }
}

/// 16-bit training goes on from fp32's checkpoint and back: both hold fp32 weights.
TEST(ResumePrecision, MasterWeightsAreTheWeights) {
  const std::unique_ptr<Backend> backend = fast_backend();
  const data::TempDir folder;
  train_and_save(*backend, tiny_gpt(true), setup_of(1, 2), folder.path(""));
  const checkpoint::Checkpoint saved(checkpoint::find_checkpoint(folder.path("")));
  checkpoint::Reader reader(saved);
  const int64_t numel = saved.manifest().parameters[0].numel();
  std::vector<float> expected(numel);
  reader.read(saved.manifest().parameters[0].name, checkpoint::kWeight, 0, expected);
  RunSetup setup = setup_of(0, 3, DType::kBFloat16);
  on_engines(*backend, tiny_gpt(true, DType::kBFloat16), setup, [&](EngineRank& rank) {
    checkpoint::restore(saved, rank.context, rank.engine, rank.model.module->parameters());
    rank.engine.wait_for_parameters();
    const zero::ParameterRange& range = rank.engine.layout().ranges()[0];
    EXPECT_EQ(
        rank.engine.optimizer().master_weights().range(range.offset, range.numel).to_host<float>(),
        expected);
    std::vector<BFloat16> rounded_weights;
    for (const float value : expected) {
      rounded_weights.push_back(rounded<BFloat16>(value));
    }
    const std::vector<BFloat16> weights =
        rank.model.module->parameters()[0]->value().to_host<BFloat16>();
    EXPECT_TRUE(
        std::ranges::equal(weights, rounded_weights, {}, widened<BFloat16>, widened<BFloat16>));
  });
}

/// Each optimizer's state is resumed, and no other optimizer's is taken for it.
TEST(ResumeOptimizer, EveryOptimizersStateAndNoOthers) {
  const std::unique_ptr<Backend> backend = fast_backend();
  const ModelFactory model = tiny_gpt(true);
  const auto with = [](const std::string& name, int stage) {
    RunSetup setup = setup_of(stage, 3);
    setup.optimizer = {.name = name, .momentum = 0.9, .weight_decay = 0.1};
    return setup;
  };
  for (const std::string& name : optim::optimizer_names()) {
    const data::TempDir folder;
    train_and_save(*backend, model, with(name, 2), folder.path(""));
    for (const std::string& other : optim::optimizer_names()) {
      SCOPED_TRACE(testing::Message() << name << " resumed by " << other);
      const auto resume = [&] {
        return resume_and_train(*backend, model, with(other, 1), folder.path(""));
      };
      if (other == name) {
        EXPECT_EQ(resume(), undisturbed(*backend, model, with(name, 0)));
      } else {
        EXPECT_NE(data::message_of<Error>(resume), "");
      }
    }
  }
}

/// The counters that the next step follows from are resumed with the tensors.
TEST(ResumeProgress, CountersAndLossScale) {
  const std::unique_ptr<Backend> backend = fast_backend();
  const ModelFactory model = tiny_gpt(true, DType::kFloat16);
  const RunSetup setup = setup_of(2, 2, DType::kFloat16);
  const data::TempDir folder;
  train_and_save(*backend, model, setup, folder.path(""));
  const checkpoint::Checkpoint saved(checkpoint::find_checkpoint(folder.path("")));
  on_engines(*backend, model, setup, [&](EngineRank& rank) {
    checkpoint::restore(saved, rank.context, rank.engine, rank.model.module->parameters());
    const zero::EngineState progress = rank.engine.state();
    EXPECT_EQ(progress, saved.manifest().state.engine);
    EXPECT_EQ(progress.attempts, 2);
    EXPECT_NE(progress.loss_scale.scale, setup.engine.loss_scale.initial);
  });
}

/// Frozen parameters are held too, exactly; they have no state.
TEST(ResumeFrozen, WeightsOnly) {
  const std::unique_ptr<Backend> backend = fast_backend();
  const auto frozen = [](RankContext& context) {
    TestModel model = tiny_gpt(true)(context);
    model.module->parameters()[1]->set_frozen(true);
    return model;
  };
  const data::TempDir folder;
  train_and_save(*backend, frozen, setup_of(2, 2), folder.path(""));
  const checkpoint::Checkpoint saved(checkpoint::find_checkpoint(folder.path("")));
  const checkpoint::ParameterInfo& info = saved.manifest().parameters[1];
  EXPECT_TRUE(info.frozen);
  EXPECT_THROW(saved.places(info.name, "exp_avg"), Error);
  EXPECT_EQ(resume_and_train(*backend, frozen, setup_of(1, 2), folder.path("")),
            undisturbed(*backend, frozen, setup_of(0, 2)));
}

/// A rank reads its own state, and no more than a block at each end of what it reads in one go.
TEST(ResumeReads, WhatTheRankOwns) {
  const std::unique_ptr<Backend> backend = fast_backend();
  const ModelFactory model = tiny_mlp({256, 1024, 1024, 1024, 64});
  RunSetup setup = setup_of(2, 2);
  setup.steps = 1;
  setup.engine.reduce_bucket_size = 0;
  const data::TempDir folder;
  train_and_save(*backend, model, setup, folder.path(""));
  const checkpoint::Checkpoint saved(checkpoint::find_checkpoint(folder.path("")));
  for (const int ranks : {1, 2, 3, 4}) {
    setup.world_size = ranks;
    on_engines(*backend, model, setup, [&](EngineRank& rank) {
      int64_t owned = 0;
      for (const zero::Segment& segment : rank.engine.optimizer().updated_segments()) {
        owned += segment.numel * 12;
      }
      const int64_t read =
          checkpoint::restore(saved, rank.context, rank.engine, rank.model.module->parameters());
      EXPECT_LE(read, owned + owned / 10) << "rank " << rank.context.rank() << " of " << ranks;
      EXPECT_GE(read, owned);
    });
  }
}

TEST(ResumeOtherModel, IsRefusedByName) {
  const std::unique_ptr<Backend> backend = fast_backend();
  const data::TempDir folder;
  train_and_save(*backend, tiny_mlp({4, 8, 2}), setup_of(1, 2), folder.path(""));
  for (const auto& [model, message] : {std::pair{tiny_mlp({4, 9, 2}), "has another shape; got ["},
                                       std::pair{tiny_mlp({4, 8, 2, 2}), "which the model has"}}) {
    const std::string refusal = data::message_of<Error>(
        [&] { resume_and_train(*backend, model, setup_of(1, 2), folder.path("")); });
    EXPECT_NE(refusal.find(message), std::string::npos) << refusal;
  }
}

}  // namespace
}  // namespace zerolab::test

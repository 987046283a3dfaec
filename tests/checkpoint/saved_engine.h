#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/snapshot.h"
#include "checkpoint/writer.h"
#include "tests/spine/equivalence/harness.h"

namespace zerolab::test {

inline checkpoint::Manifest manifest_of(const EngineRank& rank, int64_t step) {
  checkpoint::Manifest manifest;
  manifest.state.step = step;
  manifest.state.engine = rank.engine.state();
  manifest.parameters = checkpoint::describe(rank.model.module->parameters());
  manifest.tensors = checkpoint::tensors_of(rank.engine);
  return manifest;
}

/// Trains `setup.steps` steps and saves them to `folder`.
inline void train_and_save(Backend& backend, const ModelFactory& model, const RunSetup& setup,
                           const std::filesystem::path& folder) {
  checkpoint::Writer writer(checkpoint::Folder(folder), setup.world_size, 0);
  on_engines(backend, model, setup, [&](EngineRank& rank) {
    checkpoint::Snapshot snapshot(rank.context, rank.engine, rank.model.module->parameters());
    checkpoint::RankWriter rank_writer(writer, rank.context.rank(), snapshot);
    for (int step = 0; step < setup.steps; ++step) {
      rank.accumulate(setup, step);
      rank.engine.step({.learning_rate = setup.learning_rate});
    }
    rank_writer.save(manifest_of(rank, setup.steps));
  });
  for (const checkpoint::Saved& saved : writer.take_saved()) {
    EXPECT_EQ(saved.error, "");
  }
}

/// Goes on from `folder` for `setup.steps` steps more: the whole run's weights at its end.
inline std::vector<float> resume_and_train(Backend& backend, const ModelFactory& model,
                                           const RunSetup& setup,
                                           const std::filesystem::path& folder) {
  const checkpoint::Checkpoint saved(checkpoint::find_checkpoint(folder));
  std::vector<float> weights;
  on_engines(backend, model, setup, [&](EngineRank& rank) {
    checkpoint::restore(saved, rank.context, rank.engine, rank.model.module->parameters());
    for (int step = 0; step < setup.steps; ++step) {
      rank.accumulate(setup, saved.manifest().state.step + step);
      rank.engine.step({.learning_rate = setup.learning_rate});
    }
    rank.engine.wait_for_parameters();
    if (rank.context.rank() == 0) {
      weights = weights_of(rank.model.module->parameters());
    }
  });
  return weights;
}

}  // namespace zerolab::test

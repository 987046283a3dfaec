#include "checkpoint/writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "framework/core/error.h"
#include "framework/plain/backend.h"
#include "tests/checkpoint/saved_engine.h"
#include "tests/data/test_files.h"

namespace zerolab::test {
namespace {

using checkpoint::Folder;
using checkpoint::RankWriter;
using checkpoint::Saved;
using checkpoint::Snapshot;
using checkpoint::Writer;

RunSetup two_ranks() {
  RunSetup setup;
  setup.world_size = 2;
  setup.engine.stage = 2;
  return setup;
}

/// Saves at `steps`; `before(rank, step)` comes first.
std::vector<Saved> save(const Folder& folder, const std::vector<int64_t>& steps, int64_t keep,
                        const std::function<void(int, int64_t)>& before = {}) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  Writer writer(folder, 2, keep);
  on_engines(*backend, tiny_mlp({300, 100, 10}), two_ranks(), [&](EngineRank& rank) {
    Snapshot snapshot(rank.context, rank.engine, rank.model.module->parameters());
    RankWriter rank_writer(writer, rank.context.rank(), snapshot);
    for (const int64_t step : steps) {
      if (before) {
        before(rank.context.rank(), step);
      }
      rank_writer.save(manifest_of(rank, step));
    }
  });
  return writer.take_saved();
}

TEST(Writer, NamesMovesLatestAndKeepsTheNewest) {
  const data::TempDir root;
  const Folder folder(root.path("checkpoints"));
  const std::vector<Saved> saved = save(folder, {10, 20, 30, 40}, 2);
  ASSERT_EQ(saved.size(), 4u);
  for (size_t i = 0; i < saved.size(); ++i) {
    EXPECT_EQ(saved[i].step, static_cast<int64_t>(10 * (i + 1)));
    EXPECT_EQ(saved[i].error, "");
    EXPECT_EQ(saved[i].path, folder.of_step(saved[i].step));
    EXPECT_GT(saved[i].bytes, 12 * 31'110);
  }
  EXPECT_EQ(folder.steps(), (std::vector<int64_t>{30, 40}));
  EXPECT_EQ(std::filesystem::read_symlink(folder.path() / "latest"), "step-00000040");
  EXPECT_EQ(checkpoint::find_checkpoint(root.path("")),
            std::filesystem::canonical(folder.of_step(40)));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 3);
}

/// A run that was resumed from an older checkpoint writes lower steps, which are the newer ones.
TEST(Writer, TheNewestIsTheLastWritten) {
  const data::TempDir root;
  const Folder folder(root.path(""));
  save(folder, {10, 20, 30}, 0);
  save(folder, {20}, 2);
  EXPECT_EQ(folder.steps(), (std::vector<int64_t>{30, 20}));
  EXPECT_EQ(checkpoint::find_checkpoint(folder.path()),
            std::filesystem::canonical(folder.of_step(20)));
  checkpoint::verify(checkpoint::Checkpoint(folder.of_step(20)));
}

/// What killed runs left is removed at the next start, and is no checkpoint before.
TEST(Writer, WhatIsNotWholeIsNotSeen) {
  const data::TempDir root;
  const Folder folder(root.path(""));
  save(folder, {10}, 0);
  std::ofstream(folder.begin(20) / "part-000.safetensors") << "half";
  EXPECT_EQ(folder.steps(), (std::vector<int64_t>{10}));
  save(folder, {30}, 0);
  EXPECT_FALSE(std::filesystem::exists(folder.unfinished(20)));
  EXPECT_EQ(folder.steps(), (std::vector<int64_t>{10, 30}));
}

/// A rank that dies before it has written leaves the checkpoint before, and no rest.
TEST(Writer, ARankThatDiesCostsOnlyTheNewOne) {
  const data::TempDir root;
  const Folder folder(root.path(""));
  EXPECT_THROW(
      save(folder, {10, 20}, 0,
           [](int rank, int64_t step) { require(rank == 0 || step < 20, "test", "rank 1 dies"); }),
      Error);
  EXPECT_EQ(folder.steps(), (std::vector<int64_t>{10}));
  EXPECT_FALSE(std::filesystem::exists(folder.unfinished(20)));
  checkpoint::verify(checkpoint::Checkpoint(checkpoint::find_checkpoint(folder.path())));
}

/// Files that cannot grow stand for a full disk: told, and the older checkpoint is untouched.
TEST(Writer, AFullDiskCostsOnlyTheNewOne) {
  const data::TempDir root;
  const Folder folder(root.path(""));
  ASSERT_EQ(save(folder, {10}, 1).back().error, "");
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit = {};
  getrlimit(RLIMIT_FSIZE, &old_limit);
  rlimit limit = old_limit;
  limit.rlim_cur = 100'000;
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::vector<Saved> saved = save(folder, {20}, 1);
  setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_NE(saved[0].error.find(".safetensors': File too large"), std::string::npos)
      << saved[0].error;
  EXPECT_EQ(saved[0].path, "");
  EXPECT_EQ(folder.steps(), (std::vector<int64_t>{10}));
  EXPECT_FALSE(std::filesystem::exists(folder.unfinished(20)));
  checkpoint::verify(checkpoint::Checkpoint(checkpoint::find_checkpoint(folder.path())));
  EXPECT_EQ(save(folder, {30}, 1).back().error, "");
}

TEST(Writer, NoCheckpointIsSaidToBeThere) {
  const data::TempDir root;
  EXPECT_NE(data::message_of<Error>([&] {
              checkpoint::find_checkpoint(root.path(""));
            }).find("there is no checkpoint in '"),
            std::string::npos);
}

/// The ledger counts the snapshot; pieces are the model's, each element of each tensor once.
TEST(Snapshot, IsAccountedForAndHoldsEveryElementOnce) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  std::atomic<int64_t> elements = 0;
  on_engines(*backend, tiny_mlp({30, 20, 10}), two_ranks(), [&](EngineRank& rank) {
    const int64_t before = rank.context.ledger().snapshot().current_of(Category::kCheckpoint);
    {
      Snapshot snapshot(rank.context, rank.engine, rank.model.module->parameters());
      EXPECT_EQ(rank.context.ledger().snapshot().current_of(Category::kCheckpoint) - before,
                std::ssize(snapshot.data()));
      elements += std::ssize(snapshot.data()) / 4;
    }
    EXPECT_EQ(rank.context.ledger().snapshot().current_of(Category::kCheckpoint), before);
  });
  EXPECT_EQ(elements, 3 * (30 * 20 + 20 + 20 * 10 + 10));
}

}  // namespace
}  // namespace zerolab::test

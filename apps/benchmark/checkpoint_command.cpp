#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/benchmark/command.h"
#include "apps/benchmark/options.h"
#include "checkpoint/writer.h"
#include "framework/comm/local.h"
#include "framework/core/error.h"
#include "framework/onednn/backend.h"

namespace zerolab::bench {
namespace {

struct CheckpointCommand {
  GptConfig model;
  int ranks = 2;
  int stage = 1;
  int rounds = 5;                      ///< one before them warms up
  std::filesystem::path folder = ".";  ///< whose disk is measured; what is written there goes again
  std::string json;                    ///< file; empty: none
};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Seconds that dd needs for so many bytes, of which the disk then has all.
double seconds_of_dd(const std::filesystem::path& file, int64_t bytes) {
  const Clock::time_point begin = Clock::now();
  const std::string command =
      fmt::format("dd if=/dev/zero of='{}' bs=4M count={} iflag=count_bytes conv=fsync status=none",
                  file.string(), bytes);
  require(std::system(command.c_str()) == 0, "benchmark", "failed: {}", command);
  const double seconds = seconds_since(begin);
  std::filesystem::remove(file);
  return seconds;
}

struct Round {
  double dd_s = 0;
  double save_s = 0;
  double copy_ms = 0;  ///< of the slowest rank, as is what is below
  double blocked_ms = 0;
};

double median_of(std::vector<Round> rounds, double Round::*value) {
  const auto middle = rounds.begin() + std::ssize(rounds) / 2;
  std::nth_element(rounds.begin(), middle, rounds.end(),
                   [&](const Round& a, const Round& b) { return a.*value < b.*value; });
  return (*middle).*value;
}

/// Saves a model with its AdamW state, in turn with what limits it: `dd` with a sync, which writes
/// as many bytes to the same disk, and one copy in memory of what is saved. Prints both ratios.
void run_checkpoint(const CheckpointCommand& command, Backend& backend) {
  const std::filesystem::path folder = command.folder / "zerolab-checkpoint-benchmark";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::vector<Round> rounds(command.rounds + 1);
  std::vector<double> copy_ms(command.ranks);
  int64_t bytes = 0;
  int64_t num_params = 0;
  {
    checkpoint::Writer writer(checkpoint::Folder(folder), command.ranks, 1);
    LocalGroup group(command.ranks);
    run_ranks(group, [&](int rank) {
      RankContext context({.rank = rank, .world_size = command.ranks, .threads = 1}, backend);
      const std::unique_ptr<Communicator> communicator = group.communicator(context);
      Gpt model({.context = context, .seed = 1, .dtype = DType::kFloat32, .name = ""},
                command.model);
      const auto optimizer = optim::make_optimizer({.name = "adamw"});
      const zero::Engine engine(context, *communicator, model.parameters(), *optimizer,
                                {.stage = command.stage});
      checkpoint::Snapshot snapshot(context, engine, model.parameters());
      checkpoint::RankWriter rank_writer(writer, rank, snapshot);
      const auto other = std::make_unique<std::byte[]>(snapshot.data().size());
      checkpoint::Manifest manifest;
      manifest.parameters = checkpoint::describe(model.parameters());
      manifest.tensors = checkpoint::tensors_of(engine);
      for (Round& round : rounds) {
        communicator->barrier();
        if (rank == 0 && bytes > 0) {
          round.dd_s = seconds_of_dd(folder / "dd", bytes);
        }
        communicator->barrier();
        const Clock::time_point begin = Clock::now();
        std::memcpy(other.get(), snapshot.data().data(), snapshot.data().size());
        copy_ms[rank] = seconds_since(begin) * 1e3;
        communicator->barrier();
        ++manifest.state.step;
        rank_writer.save(manifest);
        rank_writer.wait();
        communicator->barrier();
        if (rank == 0) {
          const checkpoint::Saved saved = writer.take_saved().at(0);
          require(saved.error.empty(), "benchmark", "{}", saved.error);
          bytes = saved.bytes;
          round.save_s = saved.seconds;
          round.blocked_ms = saved.blocked_ms;
          round.copy_ms = *std::ranges::max_element(copy_ms);
          num_params = engine.layout().num_params();
        }
      }
    });
  }
  std::filesystem::remove_all(folder);
  rounds.erase(rounds.begin());

  const double dd_s = median_of(rounds, &Round::dd_s);
  const double save_s = median_of(rounds, &Round::save_s);
  const double copy = median_of(rounds, &Round::copy_ms);
  const double blocked = median_of(rounds, &Round::blocked_ms);
  const auto gigabytes = static_cast<double>(bytes) / 1e9;
  fmt::print("{:.1f} M parameters with AdamW's state: {:.2f} GB, {} ranks, {} rounds, medians\n",
             static_cast<double>(num_params) / 1e6, gigabytes, command.ranks, command.rounds);
  fmt::print("dd with a sync      {:8.3f} s  {:6.2f} GB/s\n", dd_s, gigabytes / dd_s);
  fmt::print("saving, in all      {:8.3f} s  {:6.2f} GB/s  {:5.1f} % of dd\n", save_s,
             gigabytes / save_s, 100 * dd_s / save_s);
  fmt::print("one copy in memory  {:8.1f} ms\n", copy);
  fmt::print("training is blocked {:8.1f} ms  {:5.2f}x the copy\n", blocked, blocked / copy);
  write_result(command.json, {{"command", "checkpoint"},
                              {"parameters", num_params},
                              {"bytes", bytes},
                              {"ranks", command.ranks},
                              {"rounds", command.rounds},
                              {"dd_s", dd_s},
                              {"save_s", save_s},
                              {"copy_ms", copy},
                              {"blocked_ms", blocked}});
}

}  // namespace

Command add_checkpoint(CLI::App& program) {
  const auto command = std::make_shared<CheckpointCommand>();
  CLI::App* const line = program.add_subcommand(
      "checkpoint",
      "Saves GPT-2 124M with AdamW's state, in turn with dd, which writes as many bytes to "
      "the same disk with a sync, and with one copy in\n"
      "memory of what is saved.");
  add_count(*line, "--ranks", command->ranks, "Ranks, each of which writes a file");
  line->add_option("--folder", command->folder, "Whose disk is measured")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  add_count(*line, "--rounds", command->rounds, "Measured rounds, after one that warms up");
  add_json(*line, command->json);
  return {line, [command] { run_checkpoint(*command, *make_onednn_backend()); }};
}

}  // namespace zerolab::bench

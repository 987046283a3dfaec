#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "apps/train_mlp/spirals.h"
#include "framework/core/error.h"
#include "zero/options.h"

namespace {

constexpr double kWanted = 0.99;

/// The exit status: 0 if the spirals were learnt.
int train(const zerolab::app::SpiralOptions& options) {
  using namespace zerolab;
  const auto begin = std::chrono::steady_clock::now();
  const app::SpiralResult result =
      app::train_spirals(options, [&](const app::SpiralReport& report) {
        fmt::print("step {:>{}}/{}  loss {:.4f}  accuracy {:.2f} %\n", report.step,
                   std::to_string(options.steps).size(), options.steps, report.loss,
                   100.0 * report.accuracy);
        std::fflush(stdout);
      });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  fmt::print("{} on {} ranks: accuracy {:.2f} % after {} steps, {:.1f} s\n",
             zero::name_of_stage(options.stage), options.ranks, 100.0 * result.accuracy,
             options.steps, seconds.count());
  if (result.accuracy >= kWanted) {
    return 0;
  }
  fmt::print(
      stderr,
      "error: [train-mlp] the spirals are not learnt; got accuracy {:.2f} %, expected {:.0f} "
      "% or more; more --steps help\n",
      100.0 * result.accuracy, 100.0 * kWanted);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  zerolab::app::SpiralOptions options;
  CLI::App program(
      "train-mlp: an MLP learns two interleaved spirals under DDP, ZeRO-1 or ZeRO-2. The exit "
      "status is 1 if it is right about less than 99 % of the test points.");
  program.option_defaults()->always_capture_default();
  program.add_option("--stage", options.stage,
                     "What is partitioned: 0 nothing (DDP), 1 optimizer state, 2 gradients too");
  program.add_option("--ranks", options.ranks, "World size N: ranks in this process");
  program.add_option("--steps", options.steps, "Optimizer steps");
  program.add_option("--batch-size", options.batch_size, "Points a step, of all ranks together");
  program.add_option("--bucket-size", options.reduce_bucket_size,
                     "Elements of a gradient bucket; 0: auto");
  program.add_flag("--overlap", options.overlap_comm, "Reduce while backward still runs");
  program.add_option("--lr", options.learning_rate, "Learning rate of the first step");
  program.add_option("--seed", options.seed, "Seeds initial weights and points");
  program.add_option("--backend", options.backend, "Kernels: onednn, plain, or auto");
  program.add_option("--report-every", options.report_every, "Steps between two lines");
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : 2;
  }
  try {
    return train(options);
  } catch (const zerolab::ConfigError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "apps/train_gpt/commands/plan_command.h"
#include "apps/train_gpt/planning/prediction.h"
#include "apps/train_gpt/setup/launch.h"
#include "apps/train_gpt/text/text_table.h"
#include "apps/train_gpt/training/training_run.h"

namespace zerolab::app {
namespace {

/// The shortest step is the one that other programs disturbed least.
class ShortestStep final : public RunObserver {
 public:
  void on_step(const StepRecord& record) override { ms = std::min(ms, record.ms.step); }
  double ms = std::numeric_limits<double>::infinity();
};

/// A stage's prediction and what came of it.
struct Checked {
  Prediction prediction;
  RunSummary run;  ///< the last
  ShortestStep step;

  double sent() const { return run.bytes_sent_per_step(); }
  double predicted_sent() const {
    return static_cast<double>(prediction.bytes_sent(Purpose::kGradient) +
                               prediction.bytes_sent(Purpose::kParameter));
  }
  bool bytes_agree() const {
    return std::ranges::all_of(run.memory,
                               [&](const MemoryLedger::Snapshot& memory) {
                                 return memory.at_total_peak == prediction.memory.at_total_peak &&
                                        memory.current == prediction.memory.current;
                               }) &&
           sent() == predicted_sent();
  }
};

std::string checked_table(const std::vector<Checked>& stages) {
  std::vector<std::vector<std::string>> rows = {{"", "peak bytes", "measured", "bytes sent",
                                                 "measured", "step ms", "measured", "ratio",
                                                 "measured", "difference"}};
  const Checked& first = stages.front();
  for (const Checked& stage : stages) {
    const double ratio = stage.prediction.ms.step / first.prediction.ms.step;
    const double measured = stage.step.ms / first.step.ms;
    rows.push_back(
        {std::string(zero::name_of_stage(stage.prediction.plan.stage)),
         fmt::format("{}", stage.prediction.memory.total_peak),
         fmt::format("{}", stage.run.memory[0].total_peak),
         fmt::format("{:.0f}", stage.predicted_sent()), fmt::format("{:.0f}", stage.sent()),
         fmt::format("{:.2f}", stage.prediction.ms.step), fmt::format("{:.2f}", stage.step.ms),
         fmt::format("{:.3f}", ratio), fmt::format("{:.3f}", measured),
         fmt::format("{:+.1f} %", 100.0 * (ratio / measured - 1.0))});
  }
  return text_table(rows);
}

}  // namespace

int check_plan(const RunConfig& config, const PlanOptions& options) {
  constexpr int64_t kSteps = 6;
  constexpr int kRounds = 3;
  RunConfig run = config;
  run.run.steps = kSteps;
  run.run.eval_every = 0;
  run.schedule.warmup_steps = std::min(run.schedule.warmup_steps, kSteps);
  const TrainingData data = load_training_data(run);
  const std::unique_ptr<Backend> backend = make_backend(run);
  const DeviceModel device =
      make_device_model(run, *backend, options.tflops, options.memory_bandwidth_gbps);
  fmt::print("{}", device.text);
  std::vector<RunConfig> configs;
  std::vector<Checked> stages;
  for (const int stage : options.stages) {
    const RunConfig& one = configs.emplace_back(with_stage(run, stage));
    stages.emplace_back().prediction =
        predict(with_ranks(one, one.launch.ranks), data.vocab_size, *backend, device);
  }
  // The stages take turns, so that none has the machine at its worst alone.
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < stages.size(); ++i) {
      stages[i].run = run_training(configs[i], data, stages[i].step, false);
    }
  }
  fmt::print(
      "\nEach number as planned and as measured in {} runs of {} steps (ms: rank 0, the shortest "
      "step); ratio: step to the first stage's\n{}",
      kRounds, kSteps, checked_table(stages));
  const bool agree = std::ranges::all_of(stages, &Checked::bytes_agree);
  fmt::print("every byte of every rank is as planned: {}\n", agree ? "yes" : "NO");
  return agree ? 0 : 1;
}

}  // namespace zerolab::app

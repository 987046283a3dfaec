#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <semaphore>
#include <thread>
#include <vector>

#include "apps/benchmark/op_profile.h"
#include "framework/comm/communicator.h"
#include "framework/comm/local.h"
#include "framework/core/recorder.h"
#include "models/gpt.h"
#include "zero/layout.h"
#include "zero/options.h"

namespace zerolab {
class Backend;
}

namespace zerolab::bench {

struct TrainingOptions {
  GptConfig model;
  int64_t batch_size = 0;    ///< sequences a rank and step
  int64_t block_length = 0;  ///< tokens of a sequence
  int ranks = 1;
  int threads = 1;                ///< a rank
  bool with_engine = true;        ///< false: one rank's plain loop (trainer.h)
  bool profiled = false;          ///< time rank 0's kernels, which must run at once
  DType dtype = DType::kFloat32;  ///< of parameters and activations
  zero::EngineOptions engine = {.gradient_clipping = 1.0};
  LocalOptions link = {};

  int64_t global_tokens() const { return ranks * batch_size * block_length; }
};

/// One training step of all ranks.
struct StepMeasurement {
  double seconds = 0.0;
  double cpu_seconds = 0.0;  ///< of all threads: far below seconds x cores on a disturbed machine
  int64_t page_faults = 0;   ///< of the process, without the disk
  double loss = 0.0;         ///< mean over the global batch
  MemoryLedger::Snapshot memory;  ///< of rank 0; its peaks are of all steps so far
  std::map<CommunicationLedger::Key, CommunicationLedger::Entry> communication;  ///< of rank 0
  std::vector<std::vector<Span>> spans;                                          ///< by rank
  OpProfile::Costs ops;  ///< of rank 0, where profiled
};

/// Ranks that train a GPT on random tokens, one step when they are told to, so that several groups
/// can take turns. Between steps their threads sleep.
class TrainingGroup {
 public:
  /// Builds the model on every rank, in parallel. `backend` outlives the group.
  TrainingGroup(const TrainingOptions& options, Backend& backend);
  ~TrainingGroup();
  TrainingGroup(const TrainingGroup&) = delete;
  TrainingGroup& operator=(const TrainingGroup&) = delete;

  /// Forward, backward, reduction, norm, clipping, AdamW and gather on every rank. `followed`:
  /// another step of this group comes at once, so that gathers may run on into it; their bytes and
  /// spans then count there. Rethrows what a rank threw.
  StepMeasurement step(bool followed = false);

  const TrainingOptions& options() const { return options_; }
  int64_t num_params() const { return num_params_; }
  /// Of a group with an engine.
  const zero::Layout& layout() const { return layout_.value(); }
  /// 6Ψ + 12·L·d·T: operations of forward and backward per token.
  double flops_per_token() const;

 private:
  void run(Backend& backend);
  void train_rank(Communicator& communicator, RankContext& context);
  void wait_for_ranks();

  const TrainingOptions options_;
  int64_t num_params_ = 0;
  std::optional<zero::Layout> layout_;
  OpProfile profile_;
  StepMeasurement measured_;
  bool followed_ = false;
  std::counting_semaphore<> go_{0};
  std::counting_semaphore<> done_{0};
  std::atomic<bool> stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace zerolab::bench

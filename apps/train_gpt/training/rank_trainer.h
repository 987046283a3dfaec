#pragma once

#include <memory>
#include <vector>

#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/metrics/records.h"
#include "checkpoint/snapshot.h"
#include "data/loader.h"
#include "data/tokenizer.h"
#include "framework/comm/communicator.h"
#include "framework/tensor/rank_context.h"
#include "models/gpt.h"
#include "optim/schedule.h"
#include "zero/engine.h"

namespace zerolab::app {

/// What all ranks read: made once, immutable.
struct TrainingData {
  int64_t vocab_size = 0;  ///< of the model
  data::TokenView train;
  data::TokenView validation;
  std::string vocabulary = {};  ///< of a tokenizer that was made from the text: its decoded tokens
  std::shared_ptr<const data::Tokenizer> tokenizer = {};  ///< null: the run needs none
};

/// Opens, tokenises and splits the corpus of `[data]`; throws `ConfigError` where it does not fit
/// the model.
TrainingData load_training_data(const RunConfig& config);

/// One rank's share of a run: model, engine, and the loop's body. The same code makes the dry run,
/// on the meta backend and communicator, with no data.
class RankTrainer {
 public:
  /// `data` is null in a dry run, whose vocabulary is `vocab_size`. Context, communicator and data
  /// outlive it.
  RankTrainer(RankContext& context, Communicator& communicator, const RunConfig& config,
              int64_t vocab_size, const TrainingData* data);

  /// One global batch: forward and backward of k micro-batches, then the engine's step. Peaks of
  /// the ledger, its timeline and the recorder start anew.
  zero::StepResult step(int64_t step, bool stop);
  double learning_rate(int64_t step) const { return optim::learning_rate(schedule_, step); }

  /// Mean loss over the validation split, or over its first `max_batches` batches a rank (0: all of
  /// it).
  Evaluation evaluate(int64_t max_batches);

  zero::Engine& engine() { return *engine_; }
  const zero::Engine& engine() const { return *engine_; }
  /// Null where the configuration asks for no checkpoints.
  checkpoint::Snapshot* snapshot() { return snapshot_.get(); }
  const Gpt& model() const { return *model_; }
  const std::vector<Parameter*>& parameters() const { return model_->parameters(); }

 private:
  Tensor to_device(const std::vector<int32_t>& values, int64_t rows);

  RankContext& context_;
  Communicator& communicator_;
  const RunConfig& config_;
  const TrainingData* data_;
  optim::ScheduleOptions schedule_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<Gpt> model_;
  std::unique_ptr<zero::Engine> engine_;
  std::unique_ptr<checkpoint::Snapshot> snapshot_;
  std::unique_ptr<data::Loader> loader_;
  std::vector<int32_t> inputs_;
  std::vector<int32_t> targets_;
};

}  // namespace zerolab::app

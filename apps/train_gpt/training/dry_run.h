#pragma once

#include <memory>

#include "apps/train_gpt/training/rank_trainer.h"
#include "framework/comm/local.h"
#include "framework/meta/modelled_speed.h"
#include "framework/tensor/rank_context.h"

namespace zerolab::app {

/// One rank of a run on the meta backend, without peers or data: the same model, engine and loop,
/// which allocate and compute nothing.
class DryRun {
 public:
  /// Of `config.launch.ranks` ranks, any number of them, on a device of `speed` and over `link`.
  /// Throws the out-of-memory error that the run would throw. `config` and `imitated` outlive it.
  DryRun(const RunConfig& config, int64_t vocab_size, int rank, const Backend& imitated,
         const ModelledSpeed& speed = {}, const LocalOptions& link = {});
  ~DryRun();

  RankContext& context() { return context_; }
  Communicator& communicator() { return *communicator_; }
  RankTrainer& trainer() { return trainer_; }

 private:
  const std::unique_ptr<Backend> backend_;
  RankContext context_;
  const std::unique_ptr<Communicator> communicator_;
  RankTrainer trainer_;
};

}  // namespace zerolab::app

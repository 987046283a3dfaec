#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/autograd/parameter.h"
#include "framework/comm/communicator.h"
#include "framework/comm/control.h"
#include "framework/tensor/rank_context.h"
#include "optim/loss_scaler.h"
#include "optim/optimizer.h"
#include "zero/gradient_buckets.h"
#include "zero/gradient_home.h"
#include "zero/gradient_reducer.h"
#include "zero/layout.h"
#include "zero/options.h"
#include "zero/partitioned_optimizer.h"

namespace zerolab::zero {

/// Why a step was skipped: the first non-finite element of the reduced gradients.
struct NonFinite {
  std::string parameter;
  int64_t index = 0;  ///< within the parameter
  int owner_rank = 0;
  std::string kind;               ///< "inf" or "NaN"
  std::vector<int> source_ranks;  ///< where it came from; traced under `EngineOptions::poison` only
};

/// What all ranks know, with the same bits, after a step.
struct StepResult {
  double loss = 0.0;           ///< mean over the global batch
  double gradient_norm = 0.0;  ///< before clipping, unscaled; not finite when skipped
  double loss_scale = 1.0;     ///< that this step's backwards used
  int64_t tokens = 0;          ///< of all ranks
  bool stop = false;           ///< some rank asked to stop
  std::optional<NonFinite> skipped;
};

/// The data-parallel engine. One code path serves DDP, ZeRO-1 and ZeRO-2: flat buffer, buckets and
/// layout are the same, a stage only says what is partitioned (`Partitioning`).
///
///     for each micro-batch m:  engine.begin_micro_batch();  engine.backward(loss);
///     engine.end_micro_batch(); engine.step({...});
///
/// Driven by the rank's host thread. At a fixed number of ranks, loss and weights are the same bits
/// under every stage, layout, bucket size and overlap setting (with several micro-batches: given
/// `reduce_each_micro_batch`).
class Engine {
 public:
  /// Moves the parameters that are not frozen into a flat buffer, in `parameters`' order; frozen
  /// ones stay where they are and have no gradient, state or communication. All have one dtype:
  /// fp32, or bf16 or fp16 with fp32 master weights. Throws when that is not so, when `options`
  /// cannot be honoured, or when the ranks' layouts or options differ. Everything outlives it.
  Engine(RankContext& context, Communicator& communicator,
         const std::vector<Parameter*>& parameters, const optim::Optimizer& optimizer,
         const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void begin_micro_batch();
  /// Adds the gradients of `loss` (one element: a mean over the micro-batch) over the number of
  /// micro-batches. Reductions start during the backward declared `final_one`: the micro-batch's
  /// last.
  void backward(const Tensor& loss, bool final_one = true);
  void end_micro_batch();

  struct StepArguments {
    double learning_rate = 0.0;
    int64_t tokens = 0;  ///< that this rank has trained on since the last step
    bool stop = false;   ///< this rank asks all to stop
  };
  /// Norm, clipping, update, gather. A step whose gradients are not finite changes nothing but a
  /// dynamic loss scale, and says so; throws `Error` after `max_skipped_steps` of them in a row, or
  /// when the loss scale cannot fall further. Waits on the host for the control collective.
  StepResult step(const StepArguments& arguments);

  /// Between steps: moves optimizer state and master weights to where `stage` wants them, and
  /// changes what gradients cost. The run goes on with the same bits (several micro-batches: given
  /// `reduce_each_micro_batch`). All ranks call it alike. Throws in the middle of a step, and for a
  /// stage that the other options do not allow; then nothing has changed.
  void set_stage(int stage);
  /// Between steps, on all ranks, after parameters were frozen or unfrozen: lets the newly frozen
  /// ones go, state and all, and takes the others in with fresh state. Needs the memory of stage 0
  /// for a moment.
  void refresh_parameters();

  /// Makes the compute stream wait for gathers that may still be filling parameters.
  void wait_for_parameters();

  /// What the next step depends on beside tensors and the model's parameters.
  struct Progress {
    int64_t updates = 0;  ///< the optimizer's step; skipped ones do not count
    int64_t attempts = 0;
    int skipped_in_a_row = 0;
    optim::LossScaler::State loss_scale = {};
    bool operator==(const Progress&) const = default;
  };
  Progress progress() const;
  /// Goes on as the engine would that `progress` is of, whose weights and optimizer state have been
  /// written to what this one's `optimizer()` owns. Between steps, on all ranks.
  void resume(const Progress& progress);

  int64_t updates() const { return progress_.updates; }
  const Layout& layout() const { return *layout_; }
  const EngineOptions& options() const { return options_; }
  const PartitionedOptimizer& optimizer() const { return *optimizer_; }
  const GradientBuckets& buckets() const { return *buckets_; }
  /// The parameters' flat buffer.
  const Tensor& flat_parameters() const { return flat_parameters_; }

 private:
  void take_parameters();
  void make_gradients();
  void release_gradients();
  void require_between_steps(std::string_view what) const;
  void compare_parameters();
  StepResult agree(const StepArguments& arguments);
  void give_up_if_hopeless(const NonFinite& reason) const;

  RankContext& context_;
  Communicator& communicator_;
  const std::vector<Parameter*> all_parameters_;
  const optim::Optimizer& rule_;
  const int64_t wanted_bucket_size_;
  EngineOptions options_;
  optim::LossScaler scaler_;
  Control control_;
  std::vector<Parameter*> parameters_;  ///< that are not frozen
  std::unique_ptr<const Layout> layout_;
  Tensor flat_parameters_;
  std::unique_ptr<PartitionedOptimizer> optimizer_;
  std::unique_ptr<GradientHome> gradients_;
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<GradientBuckets> buckets_;
  int micro_batch_ = 0;
  bool in_micro_batch_ = false;
  bool loss_recorded_ = false;
  Progress progress_;  ///< but for the loss scale, which the scaler has
};

}  // namespace zerolab::zero

#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "framework/autograd/parameter.h"
#include "framework/comm/communicator.h"
#include "framework/tensor/rank_context.h"
#include "optim/loss_scaler.h"
#include "optim/optimizer.h"
#include "zero/bucket_memory.h"
#include "zero/control.h"
#include "zero/gradient_buckets.h"
#include "zero/gradient_reducer.h"
#include "zero/gradient_storage.h"
#include "zero/layout.h"
#include "zero/options.h"
#include "zero/partitioned_optimizer.h"
#include "zero/stage_plan.h"

namespace zerolab::zero {

/// What the next step depends on beside tensors and the model's parameters.
struct EngineState {
  int64_t updates = 0;  ///< the optimizer's step; skipped ones do not count
  int64_t attempts = 0;
  int skipped_in_a_row = 0;
  optim::LossScaler::State loss_scale = {};
  bool operator==(const EngineState&) const = default;
};

/// The data-parallel engine. One code path serves DDP, ZeRO-1 and ZeRO-2: flat buffer, buckets and
/// layout are the same, a stage only says what is partitioned (`StagePlan`).
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
  /// cannot be honoured, or when the ranks' layouts or options differ, or `configuration_hash`: of
  /// whatever else they must agree on. What is passed by reference, but the options, outlives it.
  Engine(RankContext& context, Communicator& communicator,
         const std::vector<Parameter*>& parameters, const optim::Optimizer& optimizer,
         const EngineOptions& options, const DebugOptions& debug = {},
         uint64_t configuration_hash = 0);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void begin_micro_batch();
  /// Adds the gradients of `loss` (one element: a mean over the micro-batch) over the number of
  /// micro-batches. Reductions start during the `last_backward` of the micro-batch.
  void backward(const Tensor& loss, bool last_backward = true);
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
  /// `reduce_each_micro_batch`). All ranks call it alike. Throws in the middle of a step, for a
  /// stage that the other options do not allow, and where memory is short; then the engine goes on
  /// at its old stage.
  void set_stage(int stage);
  /// Between steps, on all ranks, after parameters were frozen or unfrozen: lets the newly frozen
  /// ones go, state and all, and takes the others in with fresh state. Needs the memory of stage 0
  /// for a moment; where that is short, it throws and nothing has changed.
  void refresh_parameters();

  /// Makes the compute stream wait for gathers that may still be filling parameters.
  void wait_for_parameters();

  EngineState state() const;
  /// Goes on from the `state` of another engine, whose weights and optimizer state have been
  /// written to this one's updated segments. Between steps, on all ranks.
  void resume(const EngineState& state);

  int64_t updates() const { return state_.updates; }
  const StagePlan& plan() const { return plan_; }
  const Layout& layout() const { return *trained_.layout; }
  const PartitionedOptimizer& optimizer() const { return *trained_.optimizer; }
  const BucketMemory& bucket_memory() const { return gradients_->memory; }
  /// The parameters' flat buffer.
  const Tensor& flat_parameters() const { return trained_.flat; }

 private:
  /// The parameters that are not frozen, and what belongs to them.
  struct Trained {
    std::vector<Parameter*> parameters;
    std::unique_ptr<const Layout> layout;
    Tensor flat;
    std::unique_ptr<PartitionedOptimizer> optimizer;

    /// Makes the parameters views of the flat buffer, which holds their values.
    void move_parameters() const;
  };
  /// A gradient's way from the backward to the step.
  struct Gradients {
    explicit Gradients(Engine& engine);
    GradientStorage storage;
    GradientReducer reducer;
    BucketMemory memory;
    GradientBuckets buckets;
  };

  Trained take_parameters();
  void release_gradients();
  void require_between_steps(std::string_view what) const;
  void compare_parameters();
  void update(const StepResult& result, double learning_rate);
  /// The other ranks' slices of the flat parameters, which mean nothing until they are gathered.
  void poison_stale_parameters();
  void check_skip_limit(const NonFinite& reason) const;

  RankContext& context_;
  Communicator& communicator_;
  const std::vector<Parameter*> all_parameters_;
  const optim::Optimizer& optimizer_rule_;
  const EngineOptions options_;  ///< but for the stage, which `plan_` has
  const DebugOptions debug_;
  const uint64_t configuration_hash_;
  StagePlan plan_;
  optim::LossScaler scaler_;
  Control control_;
  Trained trained_;
  std::optional<Gradients> gradients_;  ///< none after a change that failed and could not be undone
  int micro_batch_ = 0;
  bool in_micro_batch_ = false;
  bool loss_recorded_ = false;
  EngineState state_;  ///< but for the loss scale, which the scaler has
};

}  // namespace zerolab::zero

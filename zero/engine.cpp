#include "zero/engine.h"

#include <algorithm>
#include <exception>
#include <limits>

#include "framework/autograd/node.h"
#include "framework/comm/agreement.h"
#include "framework/core/error.h"
#include "framework/core/hash.h"
#include "framework/tensor/backend.h"

namespace zerolab::zero {
namespace {

/// The one dtype of all parameters; throws when there is no such.
DType common_dtype(const std::vector<Parameter*>& parameters) {
  require(!parameters.empty(), "zero", "the model has no parameter");
  const Parameter& first = *parameters.front();
  const DType dtype = first.value().dtype();
  require(is_floating(dtype) && dtype != DType::kFloat64, "zero",
          "{} is of {}; the engine trains fp32, bf16 or fp16", first.name(), name_of(dtype));
  for (const Parameter* parameter : parameters) {
    require(parameter->value().dtype() == dtype, "zero",
            "parameters must have one dtype; got {} of {} and {} of {}", first.name(),
            name_of(dtype), parameter->name(), name_of(parameter->value().dtype()));
  }
  return dtype;
}

void fill_with_nan(RankContext& context, const Tensor& tensor) {
  context.backend().fill(context.compute(), tensor, std::numeric_limits<double>::quiet_NaN());
}

/// Within a handler: throws the exception again after `undo`, which a group or device that has
/// broken down may end early.
template <typename Undo>
[[noreturn]] void rethrow_after(const Undo& undo) {
  const std::exception_ptr failure = std::current_exception();
  try {
    undo();
  } catch (const std::exception&) {
  }
  std::rethrow_exception(failure);
}

}  // namespace

Engine::Engine(RankContext& context, Communicator& communicator,
               const std::vector<Parameter*>& parameters, const optim::Optimizer& optimizer,
               const EngineOptions& options, const DebugOptions& debug, uint64_t configuration_hash)
    : context_(context),
      communicator_(communicator),
      all_parameters_(parameters),
      optimizer_rule_(optimizer),
      options_(options),
      debug_(debug),
      configuration_hash_(configuration_hash),
      plan_(options, common_dtype(parameters), communicator.size()),
      scaler_(options.loss_scale),
      control_(context, communicator, plan_, debug.poison),
      trained_(take_parameters()) {
  gradients_.emplace(*this);
}

Engine::~Engine() {
  // What a failed run leaves on the streams must not outlive the buffers; its error is already on
  // its way.
  try {
    release_gradients();
    wait_for_parameters();
  } catch (const std::exception&) {
  }
}

Engine::Trained Engine::take_parameters() {
  Trained trained;
  std::vector<LayoutParameter> infos;
  int64_t num_params = 0;
  for (Parameter* parameter : all_parameters_) {
    if (!parameter->frozen()) {
      trained.parameters.push_back(parameter);
      infos.push_back({.name = parameter->name(),
                       .numel = parameter->numel(),
                       .own_bucket = parameter->used_twice(),
                       .module = parameter->module()});
      num_params += parameter->numel();
    }
  }
  require(!trained.parameters.empty(), "zero", "the model has no parameter to train; unfreeze one");
  const int64_t bucket_size = options_.reduce_bucket_size;
  trained.layout = std::make_unique<const Layout>(
      std::move(infos),
      LayoutOptions{.kind = options_.layout,
                    .world_size = communicator_.size(),
                    .bucket_size = bucket_size == 0 ? auto_bucket_size(num_params) : bucket_size,
                    .alignment = options_.alignment});
  const uint64_t configuration =
      hash_of(fmt::format("{} {} {} {}", options_.hash(), debug_.hash(),
                          name_of(plan_.parameter_dtype), configuration_hash_));
  require_agreement(context_, communicator_, {configuration, trained.layout->hash()}, [](size_t i) {
    return i == 0 ? "the configuration"
                  : "the layout (of model, world size, reduce_bucket_size and frozen parameters)";
  });

  const CategoryScope scope(context_, Category::kParameters);
  trained.flat =
      Tensor::zeros(context_, Shape{trained.layout->flat_numel()}, plan_.parameter_dtype);
  for (size_t index = 0; index < trained.parameters.size(); ++index) {
    const ParameterRange& range = trained.layout->ranges()[index];
    context_.backend().copy(context_.compute(), trained.parameters[index]->value(),
                            trained.flat.range(range.offset, range.numel));
  }
  trained.move_parameters();
  trained.optimizer =
      std::make_unique<PartitionedOptimizer>(context_, communicator_, *trained.layout, plan_,
                                             optimizer_rule_, trained.parameters, trained.flat);
  return trained;
}

void Engine::Trained::move_parameters() const {
  for (size_t index = 0; index < parameters.size(); ++index) {
    const ParameterRange& range = layout->ranges()[index];
    parameters[index]->move_to(flat.range(range.offset, range.numel));
  }
}

Engine::Gradients::Gradients(Engine& engine)
    : storage(engine.context_, engine.layout(), engine.plan_),
      reducer(engine.context_, engine.communicator_, engine.layout(), engine.plan_, storage,
              engine.control_.local_statistics()),
      memory(engine.context_, engine.layout(), engine.plan_, storage, reducer),
      buckets(engine.context_, engine.layout(), engine.plan_, engine.trained_.parameters, memory,
              reducer) {}

void Engine::release_gradients() {
  if (gradients_.has_value()) {
    gradients_->reducer.retire();
    gradients_.reset();
  }
}

void Engine::compare_parameters() {
  wait_for_parameters();
  const std::vector<uint64_t> hashes = hashes_of(context_, all_parameters_);
  require_agreement(context_, communicator_, hashes, [&](size_t index) {
    return fmt::format("{} after step {} (debug.hash_every = {})", all_parameters_[index]->name(),
                       state_.attempts, debug_.hash_every);
  });
}

void Engine::begin_micro_batch() {
  require(gradients_.has_value(), "zero", "the engine cannot go on after a change that failed");
  require(!in_micro_batch_, "zero", "begin_micro_batch() before end_micro_batch()");
  require(micro_batch_ < plan_.micro_batches, "zero",
          "step() is due; got micro-batch {}, expected {} a step", micro_batch_ + 1,
          plan_.micro_batches);
  size_t trained = 0;
  for (const Parameter* parameter : all_parameters_) {
    const bool known =
        trained < trained_.parameters.size() && trained_.parameters[trained] == parameter;
    require(known != parameter->frozen(), "zero",
            "{} was {} after the engine was made; call refresh_parameters() between steps",
            parameter->name(), known ? "frozen" : "unfrozen");
    trained += known ? 1 : 0;
  }
  in_micro_batch_ = true;
  loss_recorded_ = false;
  gradients_->buckets.begin_micro_batch(micro_batch_);
}

void Engine::backward(const Tensor& loss, bool last_backward) {
  require(in_micro_batch_, "zero", "backward() outside begin_micro_batch() … end_micro_batch()");
  control_.add_loss(micro_batch_, loss, !loss_recorded_);
  loss_recorded_ = true;
  gradients_->buckets.begin_backward(last_backward);
  const Tensor seed = Tensor::empty_like(loss);
  context_.backend().fill(context_.compute(), seed, scaler_.scale() / plan_.micro_batches);
  autograd::backward(loss, seed);
}

void Engine::end_micro_batch() {
  require(in_micro_batch_ && loss_recorded_, "zero",
          "end_micro_batch() needs begin_micro_batch() and a backward() before it");
  gradients_->buckets.end_micro_batch();
  in_micro_batch_ = false;
  ++micro_batch_;
  if (plan_.reduces_each_micro_batch) {
    gradients_->reducer.retire();
  }
}

StepResult Engine::step(const StepArguments& arguments) {
  require(micro_batch_ == plan_.micro_batches && !in_micro_batch_, "zero",
          "step() after {} of {} micro-batches", micro_batch_, plan_.micro_batches);
  micro_batch_ = 0;
  ++state_.attempts;
  gradients_->reducer.retire();
  wait_for_parameters();
  const std::vector<Segment>& partition = trained_.optimizer->partition_segments();
  control_.set_gradients(gradients_->storage, partition);
  const StepResult result =
      control_.exchange(arguments.tokens, arguments.stop, scaler_.scale(), layout());
  if (result.skipped.has_value()) {
    ++state_.skipped_in_a_row;
    check_skip_limit(*result.skipped);
  } else {
    state_.skipped_in_a_row = 0;
    ++state_.updates;
    update(result, arguments.learning_rate);
    poison_stale_parameters();
    trained_.optimizer->gather_parameters();
  }
  scaler_.update(result.skipped.has_value());
  if (debug_.poison) {
    for (const Segment& kept : plan_.partitions.gradients ? partition : layout().segments()) {
      fill_with_nan(context_, gradients_->storage.at(kept));
    }
  }
  if (debug_.hash_every > 0 && state_.attempts % debug_.hash_every == 0) {
    compare_parameters();
  }
  return result;
}

void Engine::update(const StepResult& result, double learning_rate) {
  double scale = 1.0;
  if (options_.gradient_clipping > 0.0) {
    // As torch.nn.utils.clip_grad_norm_ does.
    scale = std::min(1.0, options_.gradient_clipping / (result.gradient_norm + 1e-6));
  }
  const ScopedSpan span = context_.span(SpanKind::kOptimizer, "update");
  trained_.optimizer->update(gradients_->storage, {.learning_rate = learning_rate,
                                                   .step = state_.updates,
                                                   .gradient_scale = scale / result.loss_scale});
}

void Engine::poison_stale_parameters() {
  if (!debug_.poison || !plan_.partitions.optimizer_state) {
    return;
  }
  for (const Bucket& bucket : layout().buckets()) {
    for (const Slice& slice : bucket.slices.all()) {
      if (slice.owner != context_.rank()) {
        const int64_t begin = bucket.offset + slice.bucket_offset;
        fill_with_nan(context_, flat_parameters().range(begin, slice.numel));
      }
    }
  }
}

void Engine::check_skip_limit(const NonFinite& reason) const {
  const std::string last = fmt::format("{} at {}[{}], owned by rank {}", reason.kind,
                                       reason.parameter, reason.index, reason.owner_rank);
  require(!scaler_.exhausted(), "zero",
          "gradients still overflow at the smallest loss scale, {}; the last: {}; lower "
          "optimizer.lr, or train in bf16 or fp32",
          scaler_.scale(), last);
  require(state_.skipped_in_a_row <= options_.max_skipped_steps, "zero",
          "{} steps in a row had gradients that are not finite; the last: {}; lower optimizer.lr, "
          "set optimizer.gradient_clipping, or look for bad data (train.max_skipped_steps = {})",
          state_.skipped_in_a_row, last, options_.max_skipped_steps);
}

void Engine::require_between_steps(std::string_view what) const {
  require(micro_batch_ == 0 && !in_micro_batch_, "zero",
          "{} in the middle of a step, after {} of {} micro-batches; call it after step()", what,
          micro_batch_, plan_.micro_batches);
}

EngineState Engine::state() const {
  EngineState state = state_;
  state.loss_scale = scaler_.state();
  return state;
}

void Engine::resume(const EngineState& state) {
  require_between_steps("resume()");
  state_ = state;
  scaler_.resume(state.loss_scale);
  poison_stale_parameters();
  trained_.optimizer->sync_parameters_from_master();
}

void Engine::set_stage(int stage) {
  require_between_steps("set_stage()");
  EngineOptions options = options_;
  options.stage = stage;
  const StagePlan wanted(options, plan_.parameter_dtype, communicator_.size());
  require_agreement(context_, communicator_, {static_cast<uint64_t>(stage)},
                    [&](size_t) { return fmt::format("set_stage({})", stage); });
  if (stage == plan_.stage) {
    return;
  }
  const StagePlan old = plan_;
  const auto change_to = [&](const StagePlan& plan) {
    // Gradients mean nothing between steps: their memory is given back before the state's grows.
    release_gradients();
    trained_.optimizer->repartition(plan);
    plan_ = plan;
    gradients_.emplace(*this);
  };
  wait_for_parameters();
  try {
    change_to(wanted);
  } catch (...) {
    rethrow_after([&] { change_to(old); });
  }
}

void Engine::refresh_parameters() {
  require_between_steps("refresh_parameters()");
  const int stage = plan_.stage;
  set_stage(0);
  release_gradients();
  Trained old = std::move(trained_);
  try {
    for (Parameter* parameter : old.parameters) {
      if (parameter->frozen()) {
        const CategoryScope scope(context_, Category::kParameters);
        const Tensor own = Tensor::empty_like(parameter->value());
        context_.backend().copy(context_.compute(), parameter->value(), own);
        parameter->move_to(own);
      }
    }
    trained_ = take_parameters();
    trained_.optimizer->copy_state_from(*old.optimizer);
    gradients_.emplace(*this);
  } catch (...) {
    rethrow_after([&] {
      trained_ = std::move(old);
      trained_.move_parameters();
      gradients_.emplace(*this);
      set_stage(stage);
    });
  }
  set_stage(stage);
}

void Engine::wait_for_parameters() {
  for (Parameter* parameter : trained_.parameters) {
    context_.wait_for_communication(parameter->ready(), "all_gather", -1);
    parameter->set_ready(Event());
  }
}

}  // namespace zerolab::zero

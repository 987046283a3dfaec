#include "zero/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/autograd/node.h"
#include "framework/comm/agreement.h"
#include "framework/core/error.h"
#include "framework/tensor/backend.h"

namespace zerolab::zero {
namespace {

EngineOptions checked(EngineOptions options, const std::vector<Parameter*>& parameters) {
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
  options.parameter_dtype = dtype;
  options.check();
  return options;
}

}  // namespace

Engine::Engine(RankContext& context, Communicator& communicator,
               const std::vector<Parameter*>& parameters, const optim::Optimizer& optimizer,
               const EngineOptions& options)
    : context_(context),
      communicator_(communicator),
      all_parameters_(parameters),
      rule_(optimizer),
      wanted_bucket_size_(options.reduce_bucket_size),
      options_(checked(options, parameters)),
      scaler_(options.loss_scale),
      control_(context, communicator, options.gradient_accumulation_steps, options.poison) {
  take_parameters();
  make_gradients();
}

Engine::~Engine() {
  // What a failed run leaves on the streams must not outlive the buffers; its error is already on
  // its way.
  try {
    reducer_->retire();
    wait_for_parameters();
  } catch (const std::exception&) {
  }
}

void Engine::take_parameters() {
  parameters_.clear();
  std::vector<LayoutParameter> infos;
  int64_t num_params = 0;
  for (Parameter* parameter : all_parameters_) {
    if (!parameter->frozen()) {
      parameters_.push_back(parameter);
      infos.push_back({parameter->name(), parameter->numel(), parameter->used_twice()});
      num_params += parameter->numel();
    }
  }
  require(!parameters_.empty(), "zero", "the model has no parameter to train; unfreeze one");
  options_.reduce_bucket_size =
      wanted_bucket_size_ == 0 ? auto_bucket_size(num_params) : wanted_bucket_size_;
  layout_ = std::make_unique<const Layout>(std::move(infos),
                                           LayoutOptions{.kind = options_.layout,
                                                         .world_size = communicator_.size(),
                                                         .bucket_size = options_.reduce_bucket_size,
                                                         .alignment = options_.alignment});
  require_agreement(context_, communicator_, {options_.hash(), layout_->hash()}, [](size_t index) {
    return index == 0
               ? "the configuration"
               : "the layout (of model, world size, reduce_bucket_size and frozen parameters)";
  });

  const CategoryScope scope(context_, Category::kParameters);
  flat_parameters_ =
      Tensor::zeros(context_, Shape{layout_->flat_numel()}, options_.parameter_dtype);
  for (size_t index = 0; index < parameters_.size(); ++index) {
    const ParameterRange& range = layout_->ranges()[index];
    const Tensor home = flat_parameters_.range(range.offset, range.numel);
    context_.backend().copy(context_.compute(), parameters_[index]->value(), home);
    parameters_[index]->rehome(home);
  }
  optimizer_ = std::make_unique<PartitionedOptimizer>(context_, communicator_, *layout_, options_,
                                                      rule_, parameters_, flat_parameters_);
}

void Engine::make_gradients() {
  gradients_ = std::make_unique<GradientHome>(context_, *layout_, options_);
  reducer_ = std::make_unique<GradientReducer>(context_, communicator_, *layout_, options_,
                                               *gradients_, control_.local_statistics());
  buckets_ = std::make_unique<GradientBuckets>(context_, *layout_, options_, parameters_,
                                               *gradients_, *reducer_);
}

void Engine::release_gradients() {
  reducer_->retire();
  buckets_.reset();
  reducer_.reset();
  gradients_.reset();
}

void Engine::compare_parameters() {
  wait_for_parameters();
  const std::vector<uint64_t> hashes = hashes_of(context_, all_parameters_);
  require_agreement(context_, communicator_, hashes, [&](size_t index) {
    return fmt::format("{} after step {} (debug.hash_every = {})", all_parameters_[index]->name(),
                       progress_.attempts, options_.hash_every);
  });
}

void Engine::begin_micro_batch() {
  require(!in_micro_batch_, "zero", "begin_micro_batch() before end_micro_batch()");
  require(micro_batch_ < options_.gradient_accumulation_steps, "zero",
          "step() is due; got micro-batch {}, expected {} a step", micro_batch_ + 1,
          options_.gradient_accumulation_steps);
  size_t trained = 0;
  for (const Parameter* parameter : all_parameters_) {
    const bool known = trained < parameters_.size() && parameters_[trained] == parameter;
    require(known != parameter->frozen(), "zero",
            "{} was {} after the engine was made; call refresh_parameters() between steps",
            parameter->name(), known ? "frozen" : "unfrozen");
    trained += known ? 1 : 0;
  }
  in_micro_batch_ = true;
  loss_recorded_ = false;
  buckets_->begin_micro_batch(micro_batch_, options_.gradient_accumulation_steps);
}

void Engine::backward(const Tensor& loss, bool final_one) {
  require(in_micro_batch_, "zero", "backward() outside begin_micro_batch() … end_micro_batch()");
  control_.add_loss(micro_batch_, loss, !loss_recorded_);
  loss_recorded_ = true;
  buckets_->begin_backward(final_one);
  const Tensor seed = Tensor::empty_like(loss);
  context_.backend().fill(context_.compute(), seed,
                          scaler_.scale() / options_.gradient_accumulation_steps);
  autograd::backward(loss, seed);
}

void Engine::end_micro_batch() {
  require(in_micro_batch_ && loss_recorded_, "zero",
          "end_micro_batch() needs begin_micro_batch() and a backward() before it");
  buckets_->end_micro_batch();
  in_micro_batch_ = false;
  ++micro_batch_;
  if (options_.reduces_each_micro_batch()) {
    reducer_->retire();
  }
}

StepResult Engine::step(const StepArguments& arguments) {
  require(micro_batch_ == options_.gradient_accumulation_steps && !in_micro_batch_, "zero",
          "step() after {} of {} micro-batches", micro_batch_,
          options_.gradient_accumulation_steps);
  micro_batch_ = 0;
  ++progress_.attempts;
  reducer_->retire();
  wait_for_parameters();
  const StepResult result = agree(arguments);
  if (result.skipped.has_value()) {
    ++progress_.skipped_in_a_row;
    give_up_if_hopeless(*result.skipped);
  } else {
    progress_.skipped_in_a_row = 0;
    ++progress_.updates;
    double scale = 1.0;
    if (options_.gradient_clipping > 0.0) {
      // As torch.nn.utils.clip_grad_norm_ does.
      scale = std::min(1.0, options_.gradient_clipping / (result.gradient_norm + 1e-6));
    }
    {
      const ScopedSpan span = context_.span(SpanKind::kOptimizer, "update");
      optimizer_->update(*gradients_, {.learning_rate = arguments.learning_rate,
                                       .step = progress_.updates,
                                       .gradient_scale = scale / result.loss_scale});
    }
    optimizer_->gather_parameters();
  }
  scaler_.update(result.skipped.has_value());
  if (options_.poison) {
    optimizer_->poison_gradients(*gradients_);
  }
  if (options_.hash_every > 0 && progress_.attempts % options_.hash_every == 0) {
    compare_parameters();
  }
  return result;
}

StepResult Engine::agree(const StepArguments& arguments) {
  {
    const ScopedSpan span = context_.span(SpanKind::kOptimizer, "norm");
    optimizer_->gradient_statistics(*gradients_, control_.clear_statistics());
  }
  const Control::Outcome outcome = control_.exchange(arguments.tokens, arguments.stop);
  StepResult result = {.loss = outcome.loss,
                       .gradient_norm = std::sqrt(outcome.sum_of_squares) / scaler_.scale(),
                       .loss_scale = scaler_.scale(),
                       .tokens = outcome.tokens,
                       .stop = outcome.stop,
                       .skipped = {}};
  if (outcome.non_finite.has_value()) {
    const auto& found = *outcome.non_finite;
    const int parameter = layout_->parameter_at(found.flat_offset);
    result.skipped = NonFinite{.parameter = parameters_[parameter]->name(),
                               .index = found.flat_offset - layout_->ranges()[parameter].offset,
                               .owner_rank = found.owner,
                               .kind = found.nan ? "NaN" : "inf",
                               .source_ranks = found.sources};
    result.gradient_norm = found.nan ? std::numeric_limits<double>::quiet_NaN()
                                     : std::numeric_limits<double>::infinity();
  }
  return result;
}

void Engine::give_up_if_hopeless(const NonFinite& reason) const {
  const std::string last = fmt::format("{} at {}[{}], owned by rank {}", reason.kind,
                                       reason.parameter, reason.index, reason.owner_rank);
  require(!scaler_.exhausted(), "zero",
          "gradients still overflow at the smallest loss scale, {}; the last: {}; lower "
          "optimizer.lr, or train in bf16 or fp32",
          scaler_.scale(), last);
  require(progress_.skipped_in_a_row <= options_.max_skipped_steps, "zero",
          "{} steps in a row had gradients that are not finite; the last: {}; lower optimizer.lr, "
          "set optimizer.gradient_clipping, or look for bad data (train.max_skipped_steps = {})",
          progress_.skipped_in_a_row, last, options_.max_skipped_steps);
}

void Engine::require_between_steps(std::string_view what) const {
  require(micro_batch_ == 0 && !in_micro_batch_, "zero",
          "{} in the middle of a step, after {} of {} micro-batches; call it after step()", what,
          micro_batch_, options_.gradient_accumulation_steps);
}

Engine::Progress Engine::progress() const {
  Progress progress = progress_;
  progress.loss_scale = scaler_.state();
  return progress;
}

void Engine::resume(const Progress& progress) {
  require_between_steps("resume()");
  progress_ = progress;
  scaler_.resume(progress.loss_scale);
  optimizer_->publish();
}

void Engine::set_stage(int stage) {
  require_between_steps("set_stage()");
  EngineOptions wanted = options_;
  wanted.stage = stage;
  wanted.check();
  require_agreement(context_, communicator_, {static_cast<uint64_t>(stage)},
                    [&](size_t) { return fmt::format("set_stage({})", stage); });
  if (stage == options_.stage) {
    return;
  }
  // Gradients mean nothing between steps: their memory is given back before the state's grows.
  wait_for_parameters();
  release_gradients();
  options_.stage = stage;
  optimizer_->rehome();
  make_gradients();
}

void Engine::refresh_parameters() {
  require_between_steps("refresh_parameters()");
  const int stage = options_.stage;
  set_stage(0);
  release_gradients();
  for (Parameter* parameter : parameters_) {
    if (parameter->frozen()) {
      const CategoryScope scope(context_, Category::kParameters);
      const Tensor own = Tensor::empty_like(parameter->value());
      context_.backend().copy(context_.compute(), parameter->value(), own);
      parameter->rehome(own);
    }
  }
  const std::unique_ptr<const Layout> old_layout = std::move(layout_);
  const std::unique_ptr<PartitionedOptimizer> old = std::move(optimizer_);
  take_parameters();
  optimizer_->adopt(*old);
  make_gradients();
  set_stage(stage);
}

void Engine::wait_for_parameters() {
  for (Parameter* parameter : parameters_) {
    context_.wait_for_communication(parameter->ready(), "all_gather", -1);
    parameter->set_ready(Event());
  }
}

}  // namespace zerolab::zero

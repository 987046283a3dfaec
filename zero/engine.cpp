#include "zero/engine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "framework/autograd/node.h"
#include "framework/core/backend.h"
#include "framework/core/error.h"
#include "framework/core/exact_sum.h"

namespace zerolab::zero {
namespace {

std::vector<Parameter*> trainable(const std::vector<Parameter*>& parameters) {
  std::vector<Parameter*> result;
  for (Parameter* parameter : parameters) {
    if (!parameter->frozen()) {
      require(parameter->value().dtype() == DType::kFloat32, "zero",
              "{} is of {}; the engine trains fp32 parameters", parameter->name(),
              name_of(parameter->value().dtype()));
      result.push_back(parameter);
    }
  }
  require(!result.empty(), "zero", "the model has no parameter to train; unfreeze one");
  return result;
}

Layout make_layout(const std::vector<Parameter*>& parameters, int world_size,
                   EngineOptions& options) {
  std::vector<LayoutParameter> infos;
  int64_t num_params = 0;
  for (const Parameter* parameter : parameters) {
    infos.push_back({parameter->name(), parameter->numel(), parameter->used_twice()});
    num_params += parameter->numel();
  }
  if (options.reduce_bucket_size == 0) {
    options.reduce_bucket_size = auto_bucket_size(num_params);
  }
  return Layout(std::move(infos), {.world_size = world_size,
                                   .bucket_size = options.reduce_bucket_size,
                                   .alignment = options.alignment});
}

/// One rank's words of the control collective: its gradient statistics, then these, then one fp32
/// loss a micro-batch.
constexpr int kTokensWord = kStatisticsWords;
constexpr int kStopWord = kStatisticsWords + 1;
constexpr int kLossWord = kStatisticsWords + 2;

int64_t control_words(const EngineOptions& options) {
  return kLossWord + (options.gradient_accumulation_steps + 1) / 2;
}

}  // namespace

Engine::Engine(RankContext& context, Communicator& communicator,
               const std::vector<Parameter*>& parameters, const optim::Optimizer& optimizer,
               const EngineOptions& options)
    : context_(context),
      communicator_(communicator),
      options_(options),
      parameters_(trainable(parameters)),
      layout_(make_layout(parameters_, communicator.size(), options_)) {
  const Partitioning partitioned = partitioning_of(options_.stage);
  flatten_parameters();
  {
    const CategoryScope scope(context_, Category::kGradients);
    gradients_ = Tensor::empty(
        context_, Shape{partitioned.gradients ? layout_.partition_numel() : layout_.flat_numel()},
        DType::kFloat32);
  }
  {
    const CategoryScope scope(context_, Category::kControl);
    control_ = Tensor::zeros(context_, Shape{communicator_.size() * control_words(options_)},
                             DType::kInt64);
  }
  compare_layouts();
  reducer_ =
      std::make_unique<GradientReducer>(context_, communicator_, layout_, options_, gradients_);
  buckets_ =
      std::make_unique<GradientBuckets>(context_, layout_, options_, parameters_,
                                        options_.buffered() ? Tensor() : gradients_, *reducer_);
  optimizer_ =
      std::make_unique<PartitionedOptimizer>(context_, communicator_, layout_, options_, optimizer,
                                             parameters_, flat_parameters_, gradients_);
}

Engine::~Engine() {
  // What a failed run leaves on the streams must not outlive the buffers; its error is already on
  // its way.
  try {
    reducer_->retire_all();
    wait_for_parameters();
  } catch (const std::exception&) {
  }
}

void Engine::flatten_parameters() {
  const CategoryScope scope(context_, Category::kParameters);
  flat_parameters_ = Tensor::zeros(context_, Shape{layout_.flat_numel()}, DType::kFloat32);
  for (size_t index = 0; index < parameters_.size(); ++index) {
    const ParameterRange& range = layout_.ranges()[index];
    const Tensor home = flat_parameters_.range(range.offset, range.numel);
    context_.backend().copy(context_.compute(), parameters_[index]->value(), home);
    parameters_[index]->rehome(home);
  }
}

void Engine::compare_layouts() {
  const auto mine = static_cast<int64_t>(layout_.hash());
  std::vector<int64_t> hashes(communicator_.size());
  hashes[communicator_.rank()] = mine;
  const CategoryScope scope(context_, Category::kControl);
  const Tensor all =
      Tensor::from_host(context_, Shape{communicator_.size()}, std::span<const int64_t>(hashes));
  communicator_.all_gather(context_.compute(), all, {.purpose = Purpose::kControl, .bucket = -1});
  hashes = all.to_host<int64_t>();
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    require(hashes[rank] == mine || !context_.backend().computes(), "zero",
            "rank {} has another layout than rank {}; got hash {:016x}, expected {:016x}: model, "
            "world size, "
            "reduce_bucket_size and frozen parameters must be the same on every rank",
            rank, communicator_.rank(), static_cast<uint64_t>(hashes[rank]),
            static_cast<uint64_t>(mine));
  }
}

void Engine::begin_micro_batch() {
  require(!in_micro_batch_, "zero", "begin_micro_batch() before end_micro_batch()");
  require(micro_batch_ < options_.gradient_accumulation_steps, "zero",
          "step() is due; got micro-batch {}, expected {} a step", micro_batch_ + 1,
          options_.gradient_accumulation_steps);
  in_micro_batch_ = true;
  loss_recorded_ = false;
  buckets_->begin_micro_batch(micro_batch_, options_.gradient_accumulation_steps);
}

void Engine::backward(const Tensor& loss, bool final_one) {
  require(in_micro_batch_, "zero", "backward() outside begin_micro_batch() … end_micro_batch()");
  Backend& backend = context_.backend();
  const int64_t words = control_words(options_);
  const Tensor losses = control_.range(communicator_.rank() * words + kLossWord, words - kLossWord)
                            .reinterpret(DType::kFloat32);
  const Tensor slot = losses.range(micro_batch_, 1);
  if (loss_recorded_) {
    backend.accumulate(context_.compute(), loss.view(Shape{1}), slot);
  } else {
    backend.copy(context_.compute(), loss.view(Shape{1}), slot);
  }
  loss_recorded_ = true;

  buckets_->begin_backward(final_one);
  const Tensor seed = Tensor::empty_like(loss);
  backend.fill(context_.compute(), seed, 1.0 / options_.gradient_accumulation_steps);
  autograd::backward(loss, seed);
}

void Engine::end_micro_batch() {
  require(in_micro_batch_ && loss_recorded_, "zero",
          "end_micro_batch() needs begin_micro_batch() and a backward() before it");
  buckets_->end_micro_batch();
  in_micro_batch_ = false;
  ++micro_batch_;
  if (options_.buffered()) {
    reducer_->retire_all();
  }
}

StepResult Engine::step(const StepArguments& arguments) {
  require(micro_batch_ == options_.gradient_accumulation_steps && !in_micro_batch_, "zero",
          "step() after {} of {} micro-batches", micro_batch_,
          options_.gradient_accumulation_steps);
  micro_batch_ = 0;
  reducer_->retire_all();
  wait_for_parameters();
  const StepResult result = exchange_control(arguments);
  if (result.skipped.has_value()) {
    ++skipped_in_a_row_;
    require(skipped_in_a_row_ <= options_.max_skipped_steps, "zero",
            "{} steps in a row had gradients that are not finite; the last: {} at {}[{}], owned by "
            "rank {}; lower "
            "optimizer.lr, set optimizer.gradient_clipping, or look for bad data "
            "(train.max_skipped_steps = {})",
            skipped_in_a_row_, result.skipped->kind, result.skipped->parameter,
            result.skipped->index, result.skipped->owner_rank, options_.max_skipped_steps);
  } else {
    skipped_in_a_row_ = 0;
    ++updates_;
    double scale = 1.0;
    if (options_.gradient_clipping > 0.0) {
      // As torch.nn.utils.clip_grad_norm_ does.
      scale = std::min(1.0, options_.gradient_clipping / (result.gradient_norm + 1e-6));
    }
    {
      const ScopedSpan span(context_.recorder(), SpanKind::kOptimizer, "update");
      optimizer_->update(arguments.learning_rate, updates_, scale);
    }
    optimizer_->gather_parameters();
  }
  if (options_.poison) {
    optimizer_->poison_gradients();
  }
  return result;
}

void Engine::wait_for_parameters() {
  for (Parameter* parameter : parameters_) {
    context_.wait_for_communication(parameter->ready(), "all_gather", -1);
    parameter->set_ready(Event());
  }
}

StepResult Engine::exchange_control(const StepArguments& arguments) {
  Backend& backend = context_.backend();
  const int64_t words = control_words(options_);
  const int64_t mine = communicator_.rank() * words;
  {
    const ScopedSpan span(context_.recorder(), SpanKind::kOptimizer, "norm");
    const Tensor statistics = control_.range(mine, kStatisticsWords);
    backend.fill(context_.compute(), statistics.range(0, kExactSumWords), 0.0);
    const int64_t host_words[] = {kAllFinite, kNone, arguments.tokens, arguments.stop ? 1 : 0};
    backend.copy_from_host(context_.compute(), std::as_bytes(std::span(host_words)),
                           control_.range(mine + kFirstNonFiniteWord, 4));
    optimizer_->gradient_statistics(statistics);
  }
  {
    const ScopedSpan span(context_.recorder(), SpanKind::kCommExposed, "control");
    communicator_.all_gather(context_.compute(), control_,
                             {.purpose = Purpose::kControl, .bucket = -1});
    context_.compute().synchronize();
  }

  if (!backend.computes()) {
    return StepResult{};
  }
  std::vector<int64_t> all(control_.numel());
  control_.copy_to_host(std::span<int64_t>(all));
  StepResult result;
  std::vector<int64_t> sum(kExactSumWords);
  int64_t first_non_finite = kAllFinite;
  int64_t kind = kNone;
  int owner = 0;
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    const std::span<int64_t> row(all.data() + rank * words, words);
    normalize_exact_sum(row);
    for (int i = 0; i < kExactSumWords; ++i) {
      sum[i] += row[i];
    }
    if (row[kFirstNonFiniteWord] < first_non_finite) {
      first_non_finite = row[kFirstNonFiniteWord];
      kind = row[kNonFiniteKindWord];
      owner = rank;
    }
    result.tokens += row[kTokensWord];
    result.stop = result.stop || row[kStopWord] != 0;
    for (int m = 0; m < options_.gradient_accumulation_steps; ++m) {
      const auto pair = std::bit_cast<std::array<float, 2>>(row[kLossWord + m / 2]);
      result.loss += pair[m % 2];
    }
  }
  result.loss /= static_cast<double>(communicator_.size()) * options_.gradient_accumulation_steps;
  result.gradient_norm = std::sqrt(round_exact_sum(sum));
  if (first_non_finite != kAllFinite) {
    const int parameter = layout_.parameter_at(first_non_finite);
    result.skipped = NonFinite{.parameter = parameters_[parameter]->name(),
                               .index = first_non_finite - layout_.ranges()[parameter].offset,
                               .owner_rank = owner,
                               .kind = kind == kNaN ? "NaN" : "inf"};
    result.gradient_norm = kind == kNaN ? std::numeric_limits<double>::quiet_NaN()
                                        : std::numeric_limits<double>::infinity();
  }
  return result;
}

}  // namespace zerolab::zero

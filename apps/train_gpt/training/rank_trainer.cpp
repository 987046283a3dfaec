#include "apps/train_gpt/training/rank_trainer.h"

#include <numeric>

#include "apps/train_gpt/setup/engine_options.h"
#include "apps/train_gpt/setup/make_model.h"
#include "apps/train_gpt/setup/run_tokenizer.h"
#include "data/corpus.h"
#include "data/token_dataset.h"
#include "data/windows.h"
#include "framework/core/error.h"

namespace zerolab::app {
namespace {

optim::OptimizerOptions optimizer_options(const OptimizerSection& section) {
  return {.name = section.name,
          .beta1 = section.betas[0],
          .beta2 = section.betas[1],
          .epsilon = section.eps,
          .momentum = section.momentum,
          .weight_decay = section.weight_decay};
}

data::BatchShape batch_shape(const RunConfig& config) {
  return {.batch_size = config.train.micro_batch_size, .block_size = config.model.block_size};
}

}  // namespace

TrainingData load_training_data(const RunConfig& config) {
  data::Corpus corpus(config.data.path);
  int64_t vocab_size = config.model.vocab_size;
  std::shared_ptr<const data::TokenDataset> dataset;
  std::string vocabulary;
  std::shared_ptr<const data::Tokenizer> tokenizer;
  if (corpus.kind() == data::CorpusKind::kTokens) {
    if (vocab_size == 0) {
      throw ConfigError(
          "data",
          "token shards do not say their vocabulary; set model.vocab_size (50257 for GPT-2's)");
    }
    dataset = data::TokenDataset::from_shards(std::move(corpus));
    dataset->require_tokens_below(vocab_size);
    if (config.run.sample_every > 0) {
      tokenizer = tokenizer_of_shards(config);
      vocab_size_of(config, *tokenizer);
    }
  } else {
    tokenizer = tokenizer_of(config, corpus.texts());
    vocab_size = vocab_size_of(config, *tokenizer);
    dataset = data::TokenDataset::from_text(corpus, *tokenizer);
    if (tokenizer->name() == "char") {
      std::vector<int32_t> tokens(tokenizer->vocab_size());
      std::iota(tokens.begin(), tokens.end(), 0);
      vocabulary = tokenizer->decode(tokens);
    }
  }
  const data::Split split = data::split(dataset, config.data.val_fraction);
  // Too few tokens, and a prompt outside the vocabulary, are refused here, before anything is
  // written, not at the first evaluation.
  data::Windows(split.train, config.model.block_size, "training");
  if (config.run.eval_every > 0) {
    data::Windows(split.validation, config.model.block_size, "validation");
  }
  if (config.run.sample_every > 0) {
    tokenizer->encode(config.run.sample_prompt);
  }
  return {vocab_size, split.train, split.validation, vocabulary, tokenizer};
}

RankTrainer::RankTrainer(RankContext& context, Communicator& communicator, const RunConfig& config,
                         int64_t vocab_size, const TrainingData* data)
    : context_(context),
      communicator_(communicator),
      config_(config),
      data_(data),
      schedule_{.name = config.schedule.name,
                .warmup_steps = config.schedule.warmup_steps,
                .total_steps = config.run.steps,
                .learning_rate = config.optimizer.lr,
                .min_learning_rate = config.schedule.min_lr},
      optimizer_(optim::make_optimizer(optimizer_options(config.optimizer))),
      model_(make_model(config, context, vocab_size)),
      inputs_(data == nullptr ? 0 : batch_shape(config).numel()),
      targets_(inputs_.size()) {
  engine_ = std::make_unique<zero::Engine>(context, communicator, model_->parameters(), *optimizer_,
                                           engine_options(config), debug_options(config),
                                           configuration_hash(config));
  if (config.checkpoint.every > 0) {
    snapshot_ = std::make_unique<checkpoint::Snapshot>(context, *engine_, model_->parameters());
  }
  if (data != nullptr) {
    loader_ = std::make_unique<data::Loader>(
        data->train, data::Loader::Options{
                         .shape = batch_shape(config),
                         .group = {.world_size = communicator.size(), .rank = communicator.rank()},
                         .gradient_accumulation_steps = config.train.gradient_accumulation_steps,
                         .order = data::parse_order(config.data.order),
                         .seed = static_cast<uint64_t>(config.run.seed)});
  }
}

Tensor RankTrainer::to_device(const std::vector<int32_t>& values, int64_t rows) {
  const Shape shape{rows, config_.model.block_size};
  return data_ == nullptr
             ? Tensor::empty(context_, shape, DType::kInt32)
             : Tensor::from_host(context_, shape,
                                 std::span<const int32_t>(values.data(), shape.numel()));
}

zero::StepResult RankTrainer::step(int64_t step, bool stop) {
  context_.ledger().reset_peaks();
  context_.ledger().clear_timeline();
  context_.ledger().sample("begin");
  const int64_t rows = config_.train.micro_batch_size;
  const int64_t micro_batches = config_.train.gradient_accumulation_steps;
  for (int64_t m = 0; m < micro_batches; ++m) {
    const int64_t first_sample = loader_ == nullptr ? 0 : loader_->load(step, m, inputs_, targets_);
    engine_->begin_micro_batch();
    Tensor loss;
    {
      const ScopedSpan span = context_.span(SpanKind::kForward, "forward");
      loss = model_->loss(to_device(inputs_, rows), to_device(targets_, rows),
                          {.training = true,
                           .seed = static_cast<uint64_t>(config_.run.seed),
                           .first_sample = first_sample});
    }
    context_.ledger().sample("forward");
    const ScopedSpan span = context_.span(SpanKind::kBackward, "backward");
    engine_->backward(loss);
    engine_->end_micro_batch();
    context_.ledger().sample("backward");
  }
  const zero::StepResult result =
      engine_->step({.learning_rate = learning_rate(engine_->updates()),
                     .tokens = micro_batches * rows * config_.model.block_size,
                     .stop = stop});
  context_.ledger().sample("step");
  return result;
}

Evaluation RankTrainer::evaluate(int64_t max_batches) {
  const NoGradScope no_grad(context_);
  const ModuleScope running(context_, "evaluation");
  const data::EvaluationLoader loader(
      data_->validation, batch_shape(config_),
      {.world_size = communicator_.size(), .rank = communicator_.rank()}, max_batches);
  double sum = 0.0;
  for (int64_t batch = 0; batch < loader.num_batches(); ++batch) {
    const int64_t rows = loader.load(batch, inputs_, targets_);
    if (rows > 0) {
      sum += static_cast<double>(rows) *
             model_->loss(to_device(inputs_, rows), to_device(targets_, rows), {}).item();
    }
  }
  std::vector<double> sums(communicator_.size());
  sums[communicator_.rank()] = sum;
  const CategoryScope scope(context_, Category::kControl);
  const Tensor all =
      Tensor::from_host(context_, Shape{communicator_.size()}, std::span<const double>(sums));
  communicator_.all_gather(context_.compute(), all, {.purpose = Purpose::kControl, .bucket = -1});
  double total = 0.0;
  for (const double rank_sum : all.to_host<double>()) {
    total += rank_sum;
  }
  return {.loss = total / static_cast<double>(loader.num_rows()),
          .tokens = loader.num_rows() * config_.model.block_size};
}

}  // namespace zerolab::app

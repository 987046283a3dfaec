#include "apps/benchmark/training_group.h"

#include <sys/resource.h>

#include <chrono>
#include <memory>
#include <random>
#include <vector>

#include "apps/benchmark/profiled_backend.h"
#include "apps/benchmark/trainer.h"
#include "framework/tensor/backend.h"
#include "optim/optimizer.h"

namespace zerolab::bench {
namespace {

rusage usage_of_process() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage;
}

double cpu_seconds(const rusage& usage) {
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Inputs and the tokens that follow them.
struct Batch {
  std::vector<int32_t> inputs;
  std::vector<int32_t> targets;
};

Batch random_batch(const TrainingOptions& options, std::mt19937& generator) {
  std::uniform_int_distribution<int32_t> token(0,
                                               static_cast<int32_t>(options.model.vocab_size) - 1);
  Batch batch;
  for (int64_t row = 0; row < options.batch_size; ++row) {
    int32_t next = token(generator);
    for (int64_t i = 0; i < options.block_length; ++i) {
      batch.inputs.push_back(next);
      next = token(generator);
      batch.targets.push_back(next);
    }
  }
  return batch;
}

}  // namespace

TrainingGroup::TrainingGroup(const TrainingOptions& options, Backend& backend)
    : options_(options), thread_([this, &backend] { run(backend); }) {
  wait_for_ranks();
}

TrainingGroup::~TrainingGroup() {
  stop_ = true;
  go_.release(options_.ranks);
  thread_.join();
}

StepMeasurement TrainingGroup::step(bool followed) {
  followed_ = followed;
  measured_ = {};
  measured_.spans.resize(options_.ranks);
  profile_.take();
  const rusage before = usage_of_process();
  const auto begin = std::chrono::steady_clock::now();
  go_.release(options_.ranks);
  wait_for_ranks();
  measured_.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const rusage after = usage_of_process();
  measured_.cpu_seconds = cpu_seconds(after) - cpu_seconds(before);
  measured_.page_faults = after.ru_minflt - before.ru_minflt;
  measured_.ops = profile_.take();
  return std::move(measured_);
}

double TrainingGroup::flops_per_token() const {
  const GptConfig& model = options_.model;
  return 6.0 * static_cast<double>(num_params_) +
         12.0 * static_cast<double>(model.n_layer * model.n_embd * options_.block_length);
}

void TrainingGroup::run(Backend& backend) {
  try {
    LocalGroup group(options_.ranks, options_.link);
    run_ranks(group, [&](int rank) {
      std::unique_ptr<Backend> profiled;
      if (rank == 0 && options_.profiled) {
        profiled = make_profiled_backend(backend, profile_);
      }
      RankContext context({.rank = rank, .world_size = options_.ranks, .threads = options_.threads},
                          profiled == nullptr ? backend : *profiled);
      const std::unique_ptr<Communicator> communicator = group.communicator(context);
      train_rank(*communicator, context);
    });
  } catch (...) {
    error_ = std::current_exception();
    done_.release(options_.ranks);
  }
}

void TrainingGroup::train_rank(Communicator& communicator, RankContext& context) {
  const int rank = context.rank();
  Gpt model({.context = context, .seed = 1, .dtype = options_.dtype, .name = ""}, options_.model);
  const auto optimizer = optim::make_optimizer({.name = "adamw", .weight_decay = 0.1});
  const std::unique_ptr<Trainer> trainer =
      options_.with_engine
          ? make_engine_trainer(context, communicator, model.parameters(), *optimizer,
                                options_.engine)
          : make_plain_trainer(context, model.parameters(), *optimizer, options_.engine);
  const AbortOnUnwind abort_on_unwind(communicator);
  if (rank == 0) {
    for (const Parameter* parameter : model.parameters()) {
      num_params_ += parameter->numel();
    }
    if (trainer->layout() != nullptr) {
      layout_ = *trainer->layout();
    }
  }
  std::mt19937 generator(rank);
  const Shape shape = {options_.batch_size, options_.block_length};
  while (true) {
    done_.release();
    go_.acquire();
    if (stop_) {
      return;
    }
    const Batch batch = random_batch(options_, generator);
    const Tensor loss =
        model.loss(Tensor::from_host(context, shape, std::span<const int32_t>(batch.inputs)),
                   Tensor::from_host(context, shape, std::span<const int32_t>(batch.targets)),
                   {.training = true});
    const double mean_loss = trainer->step(loss, options_.batch_size * options_.block_length);
    if (!followed_) {
      trainer->finish();
      context.compute().synchronize();
    }
    measured_.spans[rank] = context.recorder().take();
    if (rank == 0) {
      measured_.loss = mean_loss;
      measured_.communication = communicator.ledger().take();
      measured_.memory = context.ledger().snapshot();
    }
  }
}

void TrainingGroup::wait_for_ranks() {
  for (int rank = 0; rank < options_.ranks; ++rank) {
    done_.acquire();
  }
  if (error_ != nullptr) {
    std::rethrow_exception(error_);
  }
}

}  // namespace zerolab::bench

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/comm/rank_group.h"
#include "framework/nn/module.h"
#include "framework/tensor/rank_context.h"
#include "optim/optimizer.h"
#include "zero/engine.h"

namespace zerolab {
class Backend;
}

namespace zerolab::test {

/// Which backend the tests run on: oneDNN where it was built, else plain.
std::unique_ptr<Backend> fast_backend();

/// A model with a loss over global samples: row b of a micro-batch is sample `first_sample + b`.
struct TestModel {
  std::unique_ptr<nn::Module> module;
  std::function<Tensor(RankContext&, int64_t first_sample, int64_t rows)> loss;
};
using ModelFactory = std::function<TestModel(RankContext&)>;

/// A tiny GPT on random tokens, and an MLP on random points (mean squared error).
ModelFactory tiny_gpt(bool tied, DType dtype = DType::kFloat32);
ModelFactory tiny_mlp(std::vector<int64_t> sizes);

/// The parameters' values, one after another, without padding, widened to fp32.
std::vector<float> weights_of(const std::vector<Parameter*>& parameters);

/// One run of the engine.
struct RunSetup {
  int world_size = 1;
  int steps = 3;
  int64_t micro_batch = 2;
  zero::EngineOptions engine;
  zero::DebugOptions debug;
  optim::OptimizerOptions optimizer = {.weight_decay = 0.1};
  double learning_rate = 1e-2;
  StreamMode streams = StreamMode::kImmediate;
  uint64_t lazy_seed = 0;
  double timeout_s = 60.0;
  int64_t memory_limit = 0;  ///< bytes a rank; 0: none
  /// Called on every rank after construction and after each step (from 1); for what a test wants to
  /// see.
  std::function<void(RankContext&, Communicator&, zero::Engine&, int step)> inspect;
  /// The ranks' group; none: a local one.
  std::function<std::unique_ptr<RankGroup>(const RunSetup&)> make_group;
  /// What the engine shall use in the communicator's place; none: the communicator itself.
  std::function<std::unique_ptr<Communicator>(RankContext&, Communicator&)> wrap_communicator;

  std::string to_string() const;
};

/// What one rank has once its engine stands.
struct EngineRank {
  RankContext& context;
  Communicator& communicator;
  const TestModel& model;
  zero::Engine& engine;

  /// All micro-batches of step `step` (from 0), without the step itself.
  void accumulate(const RunSetup& setup, int64_t step);
};

/// Runs `body` on every rank, with a model and an engine.
void on_engines(Backend& backend, const ModelFactory& model, const RunSetup& setup,
                const std::function<void(EngineRank&)>& body);

/// A dry run of `rank`'s part on the meta backend, which stands for `imitated`, with no peers.
void on_meta_engine(const Backend& imitated, const ModelFactory& model, const RunSetup& setup,
                    int rank, const std::function<void(EngineRank&)>& body);

struct Outcome {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<float> weights;  ///< of rank 0, parameters in registration order, no padding
  bool operator==(const Outcome&) const = default;
};

/// Runs all ranks; throws unless every rank ends with the same bits.
Outcome run(Backend& backend, const ModelFactory& model, const RunSetup& setup);

/// The bits of a and b are equal, NaN included; otherwise says where they differ first.
std::string difference(const Outcome& a, const Outcome& b);

}  // namespace zerolab::test

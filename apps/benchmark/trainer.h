#pragma once

#include <memory>
#include <vector>

#include "framework/autograd/parameter.h"
#include "framework/comm/communicator.h"
#include "optim/optimizer.h"
#include "zero/layout.h"
#include "zero/options.h"

namespace zerolab::bench {

/// What a training step does with its loss. Driven by the rank's host thread.
class Trainer {
 public:
  virtual ~Trainer() = default;
  /// Backward, reduction, norm, clipping and update; gathers may go on after it. Returns the mean
  /// loss of all ranks.
  virtual double step(const Tensor& loss, int64_t tokens) = 0;
  /// Waits for gathers that go on.
  virtual void finish() {}
  /// Null without an engine.
  virtual const zero::Layout* layout() const { return nullptr; }
};

/// Trains under the engine. All but `options` outlive it, here and below.
std::unique_ptr<Trainer> make_engine_trainer(RankContext& context, Communicator& communicator,
                                             const std::vector<Parameter*>& parameters,
                                             const optim::Optimizer& optimizer,
                                             const zero::EngineOptions& options);

/// Does the same for one rank without the engine, in the fewest steps: gradients lie in the
/// parameters' own tensors, their norm is as exact, each parameter is updated by itself.
std::unique_ptr<Trainer> make_plain_trainer(RankContext& context,
                                            const std::vector<Parameter*>& parameters,
                                            const optim::Optimizer& optimizer,
                                            const zero::EngineOptions& options);

}  // namespace zerolab::bench

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/tensor/rank_context.h"
#include "framework/tensor/tensor.h"
#include "zero/gradient_storage.h"
#include "zero/layout.h"
#include "zero/stage_plan.h"

namespace zerolab::zero {

/// Why a step was skipped: the first non-finite element of the reduced gradients.
struct NonFinite {
  std::string parameter;
  int64_t index = 0;  ///< within the parameter
  int owner_rank = 0;
  std::string kind;               ///< "inf" or "NaN"
  std::vector<int> source_ranks;  ///< where it came from; traced under `DebugOptions::poison` only
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

/// The control collective, one a step: every rank sends its part of all that the ranks must agree
/// on (loss, gradient norm, tokens, stop request, non-finite gradients), and makes the same
/// decision from the same bytes.
class Control {
 public:
  /// `traces`: tell which ranks non-finite gradients came from.
  Control(RankContext& context, Communicator& communicator, const StagePlan& plan, bool traces);

  /// Adds to the loss of a micro-batch, or begins it.
  void add_loss(int micro_batch, const Tensor& loss, bool first);
  /// This rank's part of the norm and of the search for non-finite elements: the reduced gradients
  /// of its partition (Backend::gradient_statistics), at their flat offsets.
  void set_gradients(const GradientStorage& gradients, const std::vector<Segment>& partition);
  /// Where the statistics of this rank's gradients before their reduction are added up over a step;
  /// undefined unless non-finite ones are traced.
  const Tensor& local_statistics() const { return local_; }
  /// Sends what was set, `tokens` and `stop`; `loss_scale` is what the gradients were scaled by.
  /// Waits on the host.
  StepResult exchange(int64_t tokens, bool stop, double loss_scale, const Layout& layout);

 private:
  void clear(const Tensor& statistics);
  StepResult read(std::vector<int64_t> words, double loss_scale, const Layout& layout) const;

  RankContext& context_;
  Communicator& communicator_;
  const int micro_batches_;
  const int64_t alignment_;
  const int64_t words_;  ///< of one rank
  Tensor all_;           ///< int64 [world_size × words]
  Tensor mine_;
  Tensor local_;
};

}  // namespace zerolab::zero

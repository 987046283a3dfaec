#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/core/rank_context.h"
#include "framework/core/tensor.h"

namespace zerolab {

/// The control collective, one a step: every rank sends its share of all that the ranks must agree
/// on, and makes the same decision from the same bytes.
class Control {
 public:
  /// What all ranks know afterwards.
  struct Outcome {
    struct NonFinite {
      int64_t flat_offset = 0;
      bool nan = false;  ///< else infinite
      int owner = 0;
      std::vector<int> sources;  ///< ranks whose own gradients were not finite, if traced
    };
    double loss = 0.0;            ///< mean over ranks and micro-batches
    double sum_of_squares = 0.0;  ///< of the finite gradients
    int64_t tokens = 0;
    bool stop = false;
    std::optional<NonFinite> non_finite;  ///< the first of the reduced gradients
  };

  Control(RankContext& context, Communicator& communicator, int micro_batches);

  /// Adds to the loss of a micro-batch, or begins it.
  void add_loss(int micro_batch, const Tensor& loss, bool first);
  /// This rank's gradient statistics, cleared.
  Tensor clear_statistics();
  /// Sends what was laid down, `tokens` and `stop`. `local_statistics` (may be undefined): of this
  /// rank's gradients before they were reduced. Waits on the host.
  Outcome exchange(int64_t tokens, bool stop, const Tensor& local_statistics);

 private:
  Outcome read(std::vector<int64_t> words) const;

  RankContext& context_;
  Communicator& communicator_;
  const int micro_batches_;
  const int64_t words_;  ///< of one rank
  Tensor all_;           ///< int64 [world_size × words]
  Tensor mine_;
};

}  // namespace zerolab

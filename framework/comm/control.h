#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/tensor/rank_context.h"
#include "framework/tensor/tensor.h"

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

  /// `traces`: tell which ranks non-finite gradients came from.
  Control(RankContext& context, Communicator& communicator, int micro_batches, bool traces);

  /// Adds to the loss of a micro-batch, or begins it.
  void add_loss(int micro_batch, const Tensor& loss, bool first);
  /// This rank's gradient statistics, cleared.
  Tensor clear_statistics();
  /// Where the statistics of this rank's gradients before their reduction are added up over a step;
  /// undefined unless non-finite ones are traced.
  const Tensor& local_statistics() const { return local_; }
  /// Sends what was laid down, `tokens` and `stop`. Waits on the host.
  Outcome exchange(int64_t tokens, bool stop);

 private:
  void clear(const Tensor& statistics);
  Outcome read(std::vector<int64_t> words) const;

  RankContext& context_;
  Communicator& communicator_;
  const int micro_batches_;
  const int64_t words_;  ///< of one rank
  Tensor all_;           ///< int64 [world_size × words]
  Tensor mine_;
  Tensor local_;
};

}  // namespace zerolab

#pragma once

#include <memory>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "framework/tensor/rank_context.h"
#include "zero/engine.h"

namespace zerolab::checkpoint {

/// What a checkpoint holds of each parameter: "weight", then the optimizer's states.
std::vector<std::string> tensors_of(const zero::Engine& engine);

/// A copy, in the host's memory, of what one rank writes: its slices of weights and optimizer
/// state, and on rank 0 the frozen parameters. The slices are the same under every stage, so the
/// ranks share the work of what is replicated too. Its memory is held from the start, under
/// `Category::kCheckpoint`.
class Snapshot {
 public:
  /// `parameters`: the model's, in registration order. All outlive it; frozen parameters stay so.
  Snapshot(RankContext& context, const zero::Engine& engine,
           const std::vector<Parameter*>& parameters);
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  /// Copies what there is now; waits for the compute stream.
  void take();
  const std::vector<Piece>& pieces() const { return pieces_; }
  std::span<const std::byte> data() const { return {data_.get(), static_cast<size_t>(bytes_)}; }

 private:
  RankContext& context_;
  const zero::Engine& engine_;
  std::vector<Parameter*> frozen_;
  std::vector<Piece> pieces_;
  int64_t bytes_ = 0;
  std::unique_ptr<std::byte[]> data_;
};

/// Reads what this rank owns, and brings all ranks' parameters up to date: the engine goes on as
/// the one that was saved would, whatever its stage, world size, layout and precision were. On all
/// ranks. Throws `Error` before it changes anything where names or shapes differ, and where the
/// files are damaged. Returns the bytes read.
int64_t restore(const Checkpoint& checkpoint, RankContext& context, zero::Engine& engine,
                const std::vector<Parameter*>& parameters);

/// Reads weights alone into `parameters`.
void restore_weights(const Checkpoint& checkpoint, const std::vector<Parameter*>& parameters);

}  // namespace zerolab::checkpoint

#pragma once

#include <cstdint>
#include <span>

#include "data/token_dataset.h"

namespace zerolab::data {

/// A view cut into W = floor((size - 1) / T) disjoint windows of T tokens. Window w has the inputs
/// [w*T, w*T + T) and the targets one token further, so the last window needs one token after it.
class Windows {
 public:
  /// Throws `ConfigError` with the numbers where block_size (T) is below 1 or not even one window
  /// fits. `what` names the tokens in that message: "training", "validation".
  Windows(TokenView tokens, int64_t block_size, const char* what);

  int64_t size() const { return num_windows_; }
  int64_t block_size() const { return block_size_; }

  /// Writes window `index` in [0, size()): T inputs and T targets, each within [0, vocabulary).
  void read(int64_t index, std::span<int32_t> inputs, std::span<int32_t> targets) const;

 private:
  TokenView tokens_;
  int64_t block_size_;
  int64_t num_windows_;
};

}  // namespace zerolab::data

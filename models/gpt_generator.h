#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/gpt.h"
#include "models/gpt_cache.h"

namespace zerolab {

/// One sequence of tokens that a Gpt continues: `logits`, choose a token, `append` it, and again.
///
/// The model sees a window of the sequence. A full window slides: all but its last block_size / 2
/// tokens are dropped, whose positions begin at 0 again, so that a cache must be refilled only
/// every block_size / 2 tokens.
class GptGenerator {
 public:
  /// Begins with the last block_size tokens of `prompt`, which has at least one. Without a cache
  /// every token's logits are computed from the whole window: as a reference for tests and speed.
  GptGenerator(const Gpt& model, std::span<const int32_t> prompt, bool use_cache = true);

  /// Of what follows the last token, one a token of the vocabulary. Once for each token.
  std::vector<float> logits();
  void append(int32_t token);
  /// What the model sees.
  const std::vector<int32_t>& window() const { return window_; }

 private:
  const Gpt& model_;
  const bool use_cache_;
  RankContext& context_;
  GptCache cache_;
  std::vector<int32_t> window_;
};

}  // namespace zerolab

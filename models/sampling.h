#pragma once

#include <cstdint>
#include <span>

namespace zerolab {

struct SamplingOptions {
  double temperature = 1.0;  ///< divides the logits; 0: always the likeliest token (greedy)
  int64_t top_k = 0;         ///< only the k likeliest tokens; 0: all
  double top_p = 1.0;        ///< of those, only the likeliest that together reach this probability
  uint64_t seed = 0;

  /// Throws `Error` naming the first field that cannot be.
  void check() const;
};

/// Draws a token by its probability, softmax(logits / temperature) among those that `options`
/// leave. The random number is keyed by seed and `position`, so that a text depends on nothing
/// else. Of equal logits the first counts as the likelier. Throws `Error` if a logit is not
/// finite.
int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                     uint64_t position);

}  // namespace zerolab

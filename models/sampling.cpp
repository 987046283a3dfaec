#include "models/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/philox.h"

namespace zerolab {

void SamplingOptions::check() const {
  require(temperature >= 0.0 && std::isfinite(temperature), "sampling",
          "temperature; got {}, expected a finite number of at least 0 (0: greedy)", temperature);
  require(top_k >= 0, "sampling", "top_k; got {}, expected at least 0 (0: all tokens)", top_k);
  require(top_p > 0.0 && top_p <= 1.0, "sampling", "top_p; got {}, expected within (0, 1]", top_p);
}

int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                     uint64_t position) {
  options.check();
  const auto finite = [](float logit) { return std::isfinite(logit); };
  require(!logits.empty() && std::ranges::all_of(logits, finite), "sampling",
          "the model's logits are not finite; has its training diverged?");
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  if (options.temperature == 0.0) {
    return static_cast<int32_t>(likeliest - logits.begin());
  }
  std::vector<int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const size_t kept = options.top_k == 0
                          ? tokens.size()
                          : std::min<size_t>(tokens.size(), static_cast<size_t>(options.top_k));
  if (kept < tokens.size() || options.top_p < 1.0) {
    std::partial_sort(tokens.begin(), tokens.begin() + kept, tokens.end(),
                      [&](int32_t a, int32_t b) {
                        return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
                      });
  }
  std::vector<double> sums(kept);  // of weights, cumulative
  double sum = 0.0;
  for (size_t i = 0; i < kept; ++i) {
    sum += std::exp((logits[tokens[i]] - *likeliest) / options.temperature);
    sums[i] = sum;
  }
  const double reached = *std::ranges::lower_bound(sums, options.top_p * sum);
  const double drawn = uniform_from_bits(philox(options.seed, 0, position)[0]) * reached;
  return tokens[std::ranges::upper_bound(sums, drawn) - sums.begin()];
}

}  // namespace zerolab

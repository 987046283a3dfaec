#include "framework/nn/init.h"

#include <cmath>
#include <numbers>
#include <span>
#include <vector>

#include "framework/core/hash.h"
#include "framework/core/philox.h"
#include "framework/tensor/backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab::nn {
namespace {

template <typename T>
void fill_normal(const Tensor& out, const Init& init, uint64_t seed, uint64_t stream) {
  const auto element = [](double number) { return rounded<T>(static_cast<Compute<T>>(number)); };
  std::vector<T> values(out.numel());
  for (size_t i = 0; i < values.size(); i += 2) {
    const auto bits = philox(seed, stream, i / 2);
    // Box and Muller (1958): two uniform numbers, the first in (0, 1], give two normal ones.
    const double radius = std::sqrt(-2.0 * std::log((bits[0] + 1.0) * 0x1p-32));
    const double angle = 2.0 * std::numbers::pi * (bits[1] * 0x1p-32);
    values[i] = element(init.mean + init.stddev * radius * std::cos(angle));
    if (i + 1 < values.size()) {
      values[i + 1] = element(init.mean + init.stddev * radius * std::sin(angle));
    }
  }
  RankContext& context = out.context();
  context.backend().copy_from_host(context.compute(), std::as_bytes(std::span<const T>(values)),
                                   out);
}

}  // namespace

void initialize(const Tensor& out, const Init& init, uint64_t seed, std::string_view name) {
  RankContext& context = out.context();
  if (!context.backend().computes()) {
    return;
  }
  if (init.stddev == 0.0) {
    context.backend().fill(context.compute(), out, init.mean);
  } else {
    with_float_type(out.dtype(),
                    [&]<typename T>(T) { fill_normal<T>(out, init, seed, hash_of(name)); });
  }
}

}  // namespace zerolab::nn

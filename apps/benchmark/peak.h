#pragma once

#include <cstdint>
#include <vector>

#include "framework/tensor/rank_context.h"

namespace zerolab::bench {

/// What the machine can do, measured in the run that is held against it.
struct MachineLimits {
  struct Product {
    int64_t n = 0;
    double gflops = 0.0;  ///< of a square fp32 product, the best of a few
  };
  std::vector<Product> products;
  double gigabytes_per_s = 0.0;  ///< of out += source on large arrays: two reads and a write

  /// Mean over the products, in FLOP/s.
  double peak_flops() const;
  double bytes_per_s() const { return gigabytes_per_s * 1e9; }
  /// Keeps the better of both measurements, number by number.
  void improve(const MachineLimits& other);
};

/// Measures oneDNN's fp32 matmul (n = 1024, 2048, 4096) and the memory's bandwidth with `threads`
/// threads. Takes a few seconds.
MachineLimits measure_limits(Backend& backend, int threads);

}  // namespace zerolab::bench

#pragma once

#include <cstdint>
#include <string_view>

#include "framework/tensor/tensor.h"

namespace zerolab::nn {

/// The initial value of a parameter: normally distributed around `mean`, or all `mean` when
/// `stddev` is zero.
struct Init {
  double mean = 0.0;
  double stddev = 0.0;

  static Init zeros() { return {}; }
  static Init ones() { return {1.0, 0.0}; }
  static Init normal(double stddev) { return {0.0, stddev}; }
};

/// Fills `out`, of any floating dtype; 16-bit elements are the fp32 ones rounded. The numbers
/// depend on seed, the parameter's name and each element's index alone, so that they are the same
/// for any number of ranks and in any order of parameters.
void initialize(const Tensor& out, const Init& init, uint64_t seed, std::string_view name);

}  // namespace zerolab::nn

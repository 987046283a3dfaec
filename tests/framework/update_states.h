#pragma once

#include <cstdint>
#include <vector>

#include "framework/tensor/tensor.h"

namespace zerolab {

/// An update rule's states, as `make(state)` makes each.
template <typename Make>
std::vector<Tensor> update_states(size_t count, Make&& make) {
  std::vector<Tensor> states;
  for (size_t state = 0; state < count; ++state) {
    states.push_back(make(static_cast<int>(state)));
  }
  return states;
}

/// The same range of each.
inline std::vector<Tensor> ranges_of(const std::vector<Tensor>& tensors, int64_t begin,
                                     int64_t numel) {
  std::vector<Tensor> ranges;
  for (const Tensor& tensor : tensors) {
    ranges.push_back(tensor.range(begin, numel));
  }
  return ranges;
}

}  // namespace zerolab

#pragma once

#include <cstdint>

namespace zerolab {

/// What a copy of elements one by one reads and where it writes: four nested loops, the outermost
/// first. Slices, concatenations, transpositions and repetitions are such copies, and so are their
/// gradients, the other way.
struct StridedCopy {
  /// Steps through one tensor, in elements. A stride of 0 reads the same element again.
  struct Walk {
    int64_t offset = 0;
    int64_t strides[4] = {};
  };
  int64_t extents[4] = {1, 1, 1, 1};
  Walk source;
  Walk out;

  int64_t numel() const { return extents[0] * extents[1] * extents[2] * extents[3]; }
  StridedCopy reversed() const {
    StridedCopy copy = *this;
    copy.source = out;
    copy.out = source;
    return copy;
  }
};

}  // namespace zerolab

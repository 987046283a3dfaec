#include "framework/core/shape.h"

#include "framework/core/error.h"

namespace zerolab {

Shape::Shape(std::initializer_list<int64_t> extents) : rank_(static_cast<int>(extents.size())) {
  require(rank_ <= kMaxRank, "shape", "too many extents; got {}, expected at most {}", rank_, kMaxRank);
  int axis = 0;
  for (const int64_t extent : extents) {
    require(extent >= 0, "shape", "negative extent; got {}", extent);
    extents_[axis++] = extent;
  }
}

int64_t Shape::numel() const {
  int64_t product = 1;
  for (int axis = 0; axis < rank_; ++axis) {
    product *= extents_[axis];
  }
  return product;
}

Shape Shape::with_cols(int64_t cols) const {
  require(rank_ > 0, "shape", "a scalar has no last extent");
  Shape result = *this;
  result.extents_[rank_ - 1] = cols;
  return result;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int axis = 0; axis < rank_; ++axis) {
    text += fmt::format("{}{}", axis == 0 ? "" : ", ", extents_[axis]);
  }
  return text + "]";
}

}  // namespace zerolab

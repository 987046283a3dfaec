#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace zerolab {

/// The extents of a tensor, outermost first; at most four.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  /// Throws when there are more than `kMaxRank` extents or one is negative.
  Shape(std::initializer_list<int64_t> extents);

  int rank() const { return rank_; }
  /// Extent of `axis`; negative axes count from the end.
  int64_t operator[](int axis) const { return extents_[axis < 0 ? axis + rank_ : axis]; }
  int64_t numel() const;
  /// Product of all extents but the last: the rows of the tensor seen as a matrix.
  int64_t rows() const { return rank_ == 0 || cols() == 0 ? 0 : numel() / cols(); }
  int64_t cols() const { return rank_ == 0 ? 1 : extents_[rank_ - 1]; }
  /// The same rows with another last extent.
  Shape with_cols(int64_t cols) const;
  std::string to_string() const;

  bool operator==(const Shape&) const = default;

 private:
  std::array<int64_t, kMaxRank> extents_ = {};
  int rank_ = 0;
};

}  // namespace zerolab

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace zerolab::app {

/// The course of a value over a whole run, in bounded memory: means of as many values in a row as
/// it takes.
class History {
 public:
  static constexpr size_t kMaxPoints = 512;

  void add(double value);
  /// From the first value to the last; at most `kMaxPoints`.
  std::vector<double> points() const;

 private:
  std::vector<double> means_;
  int64_t values_a_mean_ = 1;
  double sum_ = 0;  ///< of the last values, which are no mean yet
  int64_t count_ = 0;
};

/// `points` as a row of characters whose height goes from the least to the greatest, one a point or
/// at most `width`; '!' where a value is not finite.
std::string sparkline(std::span<const double> points, int width, bool unicode);

}  // namespace zerolab::app

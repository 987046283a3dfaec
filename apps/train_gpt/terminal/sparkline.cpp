#include "apps/train_gpt/terminal/sparkline.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

namespace zerolab::app {
namespace {

constexpr int kLevels = 8;
constexpr std::string_view kBlocks[kLevels] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::string_view kAscii[kLevels] = {"_", ".", "-", ":", "=", "+", "*", "#"};

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Means of neighbours, `size` of them.
std::vector<double> shortened(std::span<const double> points, size_t size) {
  std::vector<double> means(size);
  for (size_t i = 0; i < size; ++i) {
    const size_t begin = i * points.size() / size;
    means[i] = mean_of(points.subspan(begin, (i + 1) * points.size() / size - begin));
  }
  return means;
}

}  // namespace

void History::add(double value) {
  sum_ += value;
  if (++count_ < values_a_mean_) {
    return;
  }
  means_.push_back(sum_ / static_cast<double>(count_));
  sum_ = 0;
  count_ = 0;
  if (means_.size() == kMaxPoints) {
    means_ = shortened(means_, kMaxPoints / 2);
    values_a_mean_ *= 2;
  }
}

std::vector<double> History::points() const {
  std::vector<double> points = means_;
  if (count_ > 0) {
    points.push_back(sum_ / static_cast<double>(count_));
  }
  return points;
}

std::string sparkline(std::span<const double> points, int width, bool unicode) {
  const std::vector<double> shown =
      shortened(points, std::min(points.size(), static_cast<size_t>(std::max(width, 0))));
  double least = INFINITY;
  double greatest = -INFINITY;
  for (const double value : shown) {
    if (std::isfinite(value)) {
      least = std::min(least, value);
      greatest = std::max(greatest, value);
    }
  }
  std::string text;
  for (const double value : shown) {
    if (!std::isfinite(value)) {
      text += '!';
      continue;
    }
    const double height = greatest > least ? (value - least) / (greatest - least) : 0.0;
    const auto level = static_cast<size_t>(std::lround(height * (kLevels - 1)));
    text += unicode ? kBlocks[level] : kAscii[level];
  }
  return text;
}

}  // namespace zerolab::app

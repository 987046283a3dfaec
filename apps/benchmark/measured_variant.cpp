#include "apps/benchmark/measured_variant.h"

#include <fmt/core.h>

#include <algorithm>

namespace zerolab::bench {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<double> MeasuredVariant::values(double StepMeasurement::*field) const {
  std::vector<double> result;
  for (const StepMeasurement& step : steps) {
    result.push_back(step.*field);
  }
  return result;
}

double MeasuredVariant::time_over(const MeasuredVariant& other) const {
  std::vector<double> ratios;
  for (size_t round = 0; round < steps.size(); ++round) {
    ratios.push_back(steps[round].seconds / other.steps[round].seconds);
  }
  return median(ratios);
}

double MeasuredVariant::best_time_over(const MeasuredVariant& other) const {
  return std::ranges::min(values(&StepMeasurement::seconds)) /
         std::ranges::min(other.values(&StepMeasurement::seconds));
}

std::string MeasuredVariant::range_ms() const {
  const auto [least, most] = std::ranges::minmax(values(&StepMeasurement::seconds));
  return fmt::format("{:.1f} to {:.1f}", least * 1e3, most * 1e3);
}

void take_turns(std::vector<MeasuredVariant>& variants, int rounds) {
  for (int round = 0; round <= rounds; ++round) {
    for (size_t turn = 0; turn < variants.size(); ++turn) {
      // Another one begins each round, so that none always follows the same neighbour.
      MeasuredVariant& variant = variants[(turn + round) % variants.size()];
      StepMeasurement measured = variant.group->step();
      if (round > 0) {
        variant.steps.push_back(std::move(measured));
      }
    }
  }
}

}  // namespace zerolab::bench

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/benchmark/training_group.h"

namespace zerolab::bench {

double median(std::vector<double> values);

/// One of several ways to train on the same global batch, and its measured steps.
struct MeasuredVariant {
  std::string name;
  std::unique_ptr<TrainingGroup> group;
  std::vector<StepMeasurement> steps = {};

  std::vector<double> values(double StepMeasurement::*field) const;
  double median_of(double StepMeasurement::*field) const { return median(values(field)); }
  /// This one's time over the other's: the median over rounds, so that what slows a whole round
  /// cancels.
  double time_over(const MeasuredVariant& other) const;
  /// The same of the best step of each.
  double best_time_over(const MeasuredVariant& other) const;
  /// "12.3 to 45.6", milliseconds.
  std::string range_ms() const;
};

/// Every round, each variant trains for one step. A round before them warms up.
void take_turns(std::vector<MeasuredVariant>& variants, int rounds);

}  // namespace zerolab::bench

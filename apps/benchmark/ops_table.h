#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/benchmark/peak.h"
#include "apps/benchmark/training_group.h"

namespace zerolab::bench {

/// Time, work and limit of every kernel and collective of one step on rank 0. The limit is the
/// longer of operations at the matmul peak and bytes at the memory's bandwidth; what stays in the
/// caches can be faster than that.
class OpsTable {
 public:
  OpsTable(const StepMeasurement& step, const MachineLimits& limits);

  /// The slowest first; then sums, the step, and what no kernel accounts for.
  void print() const;
  nlohmann::json to_json() const;

 private:
  struct Row {
    std::string name;
    int64_t calls = 0;
    double seconds = 0.0;
    double flops = 0.0;
    double bytes = 0.0;
    double limit_seconds = 0.0;
  };

  std::vector<Row> rows_;
  double step_seconds_;
  double sum_seconds_ = 0.0;
  double limit_seconds_ = 0.0;
};

}  // namespace zerolab::bench

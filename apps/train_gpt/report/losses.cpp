#include "apps/train_gpt/report/losses.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "apps/train_gpt/report/page_sections.h"

namespace zerolab::app {

using nlohmann::json;

namespace {

constexpr size_t kDrawnSteps = 1000;

int64_t num_steps(const LoggedRun& run) { return run.dropped_steps + std::ssize(run.steps); }

/// The losses of the steps that both runs have.
json verdict(const LoggedRun& run, const LoggedRun& first) {
  double largest = 0.0;
  int64_t largest_at = 0;
  int64_t compared = 0;
  auto other = first.steps.begin();
  for (const LoggedStep& step : run.steps) {
    while (other != first.steps.end() && other->step < step.step) {
      ++other;
    }
    if (other != first.steps.end() && other->step == step.step) {
      ++compared;
      const double difference = loss_difference(step.loss, other->loss);
      if (difference > largest) {
        largest = difference;
        largest_at = step.step;
      }
    }
  }
  return {{"compared_steps", &run == &first ? num_steps(run) : compared},
          {"same_bits", largest == 0.0},
          {"largest_difference", largest},
          {"at_step", largest_at}};
}

}  // namespace

json loss_section(const LoggedRun& run, const LoggedRun& first) {
  const auto point = [](const LoggedStep& step) { return json{step.step, step.loss}; };
  json points = json::array();
  for (const LoggedStep& step : thinned_out(run.steps, kDrawnSteps)) {
    points.push_back(point(step));
  }
  json loss = {{"steps", num_steps(run)},
               {"points", points},
               {"evaluations", json::array()},
               {"against_first", verdict(run, first)}};
  if (!run.steps.empty()) {
    loss["first"] = point(run.steps.front());
    loss["last"] = point(run.steps.back());
    loss["lowest"] = point(*std::ranges::min_element(run.steps, [](const auto& a, const auto& b) {
      return !std::isnan(a.loss) && !(a.loss >= b.loss);
    }));
  }
  for (const LoggedStep& one : thinned_out(run.evaluations, kDrawnSteps)) {
    loss["evaluations"].push_back(point(one));
  }
  return loss;
}

double loss_difference(double a, double b) {
  if (std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b)) {
    return 0.0;
  }
  const double relative = std::abs(a - b) / std::abs(b);
  return std::isnan(relative) ? std::numeric_limits<double>::infinity()
                              : std::max(relative, std::numeric_limits<double>::denorm_min());
}

std::vector<LoggedStep> thinned_out(const std::vector<LoggedStep>& steps, size_t most) {
  if (steps.size() <= most) {
    return steps;
  }
  const auto below = [](const LoggedStep& a, const LoggedStep& b) { return a.loss < b.loss; };
  const auto first = static_cast<double>(steps.front().step);
  const double range = static_cast<double>(steps.back().step) - first;
  std::vector<LoggedStep> kept = {steps.front()};
  const size_t stretches = most / 2;
  auto end = steps.begin();
  for (size_t i = 1; i <= stretches; ++i) {
    const double last = first + range * static_cast<double>(i) / static_cast<double>(stretches);
    const auto begin = end;
    end = std::partition_point(begin, steps.end(), [&](const LoggedStep& step) {
      return static_cast<double>(step.step) <= last;
    });
    if (begin == end) {
      continue;
    }
    const auto [lowest, highest] = std::minmax_element(begin, end, below);
    for (const auto& step : {std::min(lowest, highest), std::max(lowest, highest)}) {
      if (step->step > kept.back().step) {
        kept.push_back(*step);
      }
    }
  }
  if (steps.back().step > kept.back().step) {
    kept.push_back(steps.back());
  }
  return kept;
}

}  // namespace zerolab::app

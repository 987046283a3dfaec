#pragma once

#include <cstddef>
#include <vector>

#include "apps/train_gpt/metrics/log_reader.h"

namespace zerolab::app {

/// |a - b| / |b|; 0 exactly where both are the same bits, infinite where one is not finite.
double loss_difference(double a, double b);

/// At most about `most` of the steps: the lowest and the highest loss of stretches of as many steps
/// each, and the first and the last, so that no peak is lost. The same again and again keeps the
/// whole curve.
std::vector<LoggedStep> thinned_out(const std::vector<LoggedStep>& steps, size_t most);

}  // namespace zerolab::app

#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "framework/plain/backend.h"
#include "tests/spine/equivalence/exact_model.h"

namespace zerolab::test {

/// `base` in {DDP, ZeRO-1, first ZeRO-1, ZeRO-2, and both ZeROs in the contiguous layout}, each
/// without and with overlap; and once with gradients packed into their buckets.
inline std::vector<RunSetup> stages_of(const RunSetup& base) {
  std::vector<RunSetup> setups;
  for (const bool overlap : {false, true}) {
    for (const int stage : {0, 1, 2}) {
      RunSetup setup = base;
      setup.engine.stage = stage;
      setup.engine.overlap_comm = overlap;
      setups.push_back(setup);
      if (stage == 1) {
        setup.engine.reduce_scatter = false;
        setups.push_back(setup);
        setup.engine.reduce_scatter = true;
      }
      setup.engine.contiguous_gradients = overlap != (stage == 2);
      setup.engine.layout = zero::LayoutKind::kContiguous;
      setups.push_back(setup);
    }
  }
  return setups;
}

/// Every stage ends with the weights of a plain loop over all samples.
inline void expect_exact(const ExactModel& model, const RunSetup& base) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  for (const RunSetup& setup : stages_of(base)) {
    EXPECT_EQ(run(*backend, model.factory(), setup).weights, expected_weights(model, setup))
        << setup.to_string();
  }
}

}  // namespace zerolab::test

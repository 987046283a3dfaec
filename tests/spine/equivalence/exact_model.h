#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "tests/spine/equivalence/harness.h"

namespace zerolab::test {

/// A model whose gradients are known beforehand: its loss is the sum of coefficient × weight, so
/// that the gradient is the coefficients' mean over the rows, whatever the weights are. With
/// integers that the numbers of rows, micro-batches and ranks divide, every sum is exact in any
/// order. Weights start at 1.
struct ExactModel {
  std::vector<Shape> shapes;
  /// Of global sample `sample`.
  std::function<double(int64_t sample, int parameter, int64_t element)> coefficient =
      multiples_of(2520);
  /// The parameters that the loss of micro-batch `index` (counted over all steps) reads, in that
  /// order; some may come more than once, or not at all.
  std::function<std::vector<int>(int rank, int64_t index)> terms = {};
  std::set<int> used_twice = {};
  std::set<int> frozen = {};
  DType dtype = DType::kFloat32;  ///< of weights, coefficients and loss
  /// Called as each term's gradient is about to be written.
  std::function<void(RankContext&, const autograd::Destination&)> during_backward = {};

  ModelFactory factory() const;
  /// Small integers × `unit`, of both signs, different for every sample, parameter and element.
  static std::function<double(int64_t, int, int64_t)> multiples_of(int64_t unit);
};

/// One dimension each.
std::vector<Shape> flat_shapes(const std::vector<int64_t>& sizes);

/// The weights after `setup.steps` steps of SGD without momentum or decay, by a plain loop over all
/// samples, without engine, tensors or ranks. Exact where the model is.
std::vector<float> expected_weights(const ExactModel& model, const RunSetup& setup);

/// SGD with a dyadic learning rate, for exact tests.
RunSetup exact_setup(int world_size, int micro_batches = 1);

}  // namespace zerolab::test

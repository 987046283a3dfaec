#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "framework/autograd/parameter.h"
#include "framework/ops/elementwise.h"
#include "tests/framework/test_rank.h"

namespace zerolab {

inline constexpr double kCentralStep = 1e-5;
inline constexpr double kGradientTolerance = 1e-6;

/// Compares the gradient of every element of every fp64 parameter with central differences.
/// `forward` may have any output: it is weighted with random numbers and summed. No parameter may
/// have a sink.
inline void expect_gradients(TestRank& rank, const std::vector<Parameter*>& parameters,
                             const std::function<Tensor()>& forward) {
  Tensor out = forward();
  const Tensor weights = rank.normal(out.shape(), DType::kFloat64, "weights of the output");
  const std::vector<double> host_weights = weights.to_host<double>();
  autograd::backward(out, weights);
  out = Tensor();

  const NoGradScope no_grad(rank.context);
  const auto weighted_output = [&] {
    const std::vector<double> values = forward().to_host<double>();
    return std::inner_product(values.begin(), values.end(), host_weights.begin(), 0.0);
  };
  for (Parameter* parameter : parameters) {
    ASSERT_TRUE(parameter->gradient().defined()) << parameter->name();
    const std::vector<double> gradient = parameter->gradient().to_host<double>();
    double* values = parameter->value().data<double>();
    for (size_t i = 0; i < gradient.size(); ++i) {
      const double value = values[i];
      values[i] = value + kCentralStep;
      const double above = weighted_output();
      values[i] = value - kCentralStep;
      const double below = weighted_output();
      values[i] = value;
      const double expected = (above - below) / (2 * kCentralStep);
      EXPECT_NEAR(gradient[i], expected, kGradientTolerance * (1 + std::abs(expected)))
          << "element " << i << " of " << parameter->name() << " against the central difference";
    }
    parameter->zero_gradient();
  }
}

using Op = std::function<Tensor(const std::vector<Tensor>& inputs)>;

/// Of an op's 16-bit results, relative to the largest element: a few roundings.
inline double tolerance_of(DType dtype) { return dtype == DType::kBFloat16 ? 0x1p-7 : 0x1p-9; }

/// Compares numbers with a tolerance relative to the largest.
inline void expect_near_largest(const std::vector<double>& numbers,
                                const std::vector<double>& expected, double tolerance,
                                const std::string& what) {
  ASSERT_EQ(numbers.size(), expected.size()) << what;
  double largest = 0.0;
  for (const double number : expected) {
    largest = std::max(largest, std::abs(number));
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_NEAR(numbers[i], expected[i], tolerance * largest) << "element " << i << " of " << what;
  }
}

/// An op's output and the gradients of all its inputs, computed in `dtype`: from the same numbers
/// in every floating one.
inline std::vector<std::vector<double>> results_in(TestRank& rank, DType dtype,
                                                   const std::vector<Shape>& shapes, const Op& op) {
  std::vector<std::unique_ptr<Parameter>> parameters;
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::string name = "input" + std::to_string(i);
    parameters.push_back(std::make_unique<Parameter>(name, rank.coarse(shapes[i], dtype, name)));
    inputs.push_back(parameters.back()->tensor());
  }
  const Tensor out = op(inputs);
  std::vector<std::vector<double>> results = {rank.numbers(out)};
  autograd::backward(out, rank.coarse(out.shape(), out.dtype(), "weights of the output"));
  for (const auto& parameter : parameters) {
    results.push_back(rank.numbers(parameter->gradient()));
  }
  return results;
}

/// Compares an op's results in a 16-bit dtype with those in fp64: applied once, and twice to the
/// same inputs, so that every gradient is once written and once added.
inline void expect_rounded_results(TestRank& rank, DType dtype, const std::vector<Shape>& shapes,
                                   const Op& op) {
  const Op twice = [&](const std::vector<Tensor>& inputs) {
    return ops::add(op(inputs), op(inputs));
  };
  for (const Op& form : {op, twice}) {
    const auto results = results_in(rank, dtype, shapes, form);
    const auto expected = results_in(rank, DType::kFloat64, shapes, form);
    for (size_t r = 0; r < results.size(); ++r) {
      const std::string what = r == 0 ? "the output" : "gradient " + std::to_string(r - 1);
      expect_near_largest(results[r], expected[r], tolerance_of(dtype),
                          what + " in " + std::string(name_of(dtype)));
    }
  }
}

/// Checks an op on inputs of these shapes: on parameters themselves, and applied twice to the same
/// intermediate results, so that every gradient is once written and once added.
inline void expect_op_gradients(TestRank& rank, const std::vector<Shape>& shapes, const Op& op) {
  std::vector<std::unique_ptr<Parameter>> owned;
  std::vector<Parameter*> parameters;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::string name = "input" + std::to_string(i);
    owned.push_back(
        std::make_unique<Parameter>(name, rank.normal(shapes[i], DType::kFloat64, name)));
    parameters.push_back(owned.back().get());
  }
  expect_gradients(rank, parameters, [&] {
    std::vector<Tensor> inputs;
    for (const Parameter* parameter : parameters) {
      inputs.push_back(parameter->tensor());
    }
    return op(inputs);
  });
  expect_gradients(rank, parameters, [&] {
    std::vector<Tensor> inputs;
    for (const Parameter* parameter : parameters) {
      inputs.push_back(ops::gelu(parameter->tensor()));
    }
    return ops::add(op(inputs), op(inputs));
  });
}

}  // namespace zerolab

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "framework/core/exact_sum.h"
#include "framework/kernels/weight_layout.h"
#include "framework/ops/attention.h"
#include "framework/ops/cross_entropy.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/embedding.h"
#include "framework/ops/layer_norm.h"
#include "framework/ops/linear.h"
#include "framework/ops/mse.h"
#include "framework/tensor/backend.h"
#include "framework/update_rules/update_rule.h"
#include "tests/framework/fake_sink.h"
#include "tests/framework/gradient_check.h"
#include "tests/framework/update_states.h"

namespace zerolab {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class Half : public testing::TestWithParam<DType> {
 protected:
  Stream& stream() { return rank_.context.compute(); }
  Tensor vector(const std::vector<double>& values, DType dtype) {
    return rank_.converted(rank_.tensor<double>({static_cast<int64_t>(values.size())}, values),
                           dtype);
  }
  /// The gradients of `inputs` after two backwards of `op`, in fp32 sinks.
  std::vector<Tensor> fp32_gradients(const std::vector<Tensor>& inputs, const Op& op) {
    std::vector<std::unique_ptr<Parameter>> parameters;
    std::vector<FakeSink> sinks(inputs.size());
    std::vector<Tensor> leaves;
    for (size_t i = 0; i < inputs.size(); ++i) {
      parameters.push_back(std::make_unique<Parameter>("input", inputs[i]));
      parameters[i]->set_sink(&sinks[i]);
      leaves.push_back(parameters[i]->tensor());
    }
    std::vector<Tensor> gradients;
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      const Tensor out = op(leaves);
      autograd::backward(out, rank_.coarse(out.shape(), out.dtype(), "weights of the output"));
    }
    for (const FakeSink& sink : sinks) {
      gradients.push_back(sink.memory);
    }
    return gradients;
  }
  std::vector<Tensor> coarse(const std::vector<Shape>& shapes, DType dtype) {
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < shapes.size(); ++i) {
      tensors.push_back(rank_.coarse(shapes[i], dtype, "input" + std::to_string(i)));
    }
    return tensors;
  }
  TestRank rank_;
};
INSTANTIATE_TEST_SUITE_P(, Half, testing::Values(DType::kBFloat16, DType::kFloat16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(Half, SmallGradientsAreNotLostWhenAccumulatedInFp32) {
  const double small = GetParam() == DType::kBFloat16 ? 0x1p-9 : 0x1p-12;
  const Tensor narrow = vector({1.0}, GetParam());
  const Tensor wide = rank_.converted(narrow, DType::kFloat32);
  for (int i = 0; i < 256; ++i) {
    rank_.backend->accumulate(stream(), vector({small}, GetParam()), wide);
    rank_.backend->accumulate(stream(), vector({small}, GetParam()), narrow);
  }
  EXPECT_EQ(wide.item(), 1 + 256 * small);  // 1.5 in bf16
  EXPECT_EQ(narrow.item(), 1.0);            // what fp32 is for
}

TEST_P(Half, SumsAreRoundedOnce) {
  // -1 + (1 + 129 * small): in 16 bits small is lost beside 1, and their sum has a bit too many.
  constexpr int64_t kRows = 130;
  const double small = GetParam() == DType::kBFloat16 ? 0x1p-9 : 0x1p-12;
  std::vector<double> terms(kRows, small);
  terms[0] = 1.0;
  const Tensor rows = vector(terms, GetParam()).view({kRows, 1});
  const auto expect_sum = [&](const auto& launch) {
    const Tensor out = vector({-1.0}, GetParam()).view({1, 1});
    launch(out);
    EXPECT_EQ(out.item(), 129 * small);
  };
  expect_sum(
      [&](const Tensor& out) { rank_.backend->sum_rows(stream(), rows, out.view({1}), true); });
  expect_sum([&](const Tensor& out) {
    const Tensor indices = Tensor::zeros(rank_.context, {kRows}, DType::kInt32);
    rank_.backend->embedding_backward(stream(), indices, rows, out, true);
  });
  const Tensor ones = rank_.ones_like(rows);
  expect_sum([&](const Tensor& out) {
    rank_.backend->linear_backward_weight(stream(), ones, rows, WeightLayout::kInOut, out, true);
  });
  expect_sum([&](const Tensor& out) {
    rank_.backend->linear_backward_input(stream(), rows.view({1, kRows}), ones.view({1, kRows}),
                                         WeightLayout::kInOut, out, true);
  });
  expect_sum([&](const Tensor& out) {
    rank_.backend->linear_forward(stream(), rows.view({1, kRows}), ones, WeightLayout::kInOut,
                                  vector({-1.0}, GetParam()), out);
  });
  expect_sum([&](const Tensor& out) {
    const Tensor zero = Tensor::zeros(rank_.context, {kRows}, DType::kFloat32);
    const Tensor one = rank_.ones_like(zero);
    rank_.backend->layer_norm_backward_parameters(stream(), ones, zero, one, rows, out.view({1}),
                                                  true, Tensor(), false);
  });
}

TEST_P(Half, ParameterGradientsInFp32AreSumsThatWereNeverRounded) {
  const Tensor indices = rank_.tensor<int32_t>({2, 3}, {4, 0, 4, 4, 2, 0});
  const Tensor x = rank_.coarse({2, 3, 5}, DType::kFloat32, "x");
  const auto like = [&](const Tensor& leaf) { return rank_.converted(x, leaf.dtype()); };
  const auto check = [&](const std::vector<Shape>& shapes, const Op& op) {
    const auto gradients = fp32_gradients(coarse(shapes, GetParam()), op);
    const auto expected = fp32_gradients(coarse(shapes, DType::kFloat32), op);
    for (size_t i = 0; i < shapes.size(); ++i) {
      EXPECT_EQ(gradients[i].to_host<float>(), expected[i].to_host<float>()) << i;
    }
  };
  check({{5, 7}, {7}}, [&](const auto& in) { return ops::linear(like(in[0]), in[0], in[1]); });
  check({{7, 5}}, [&](const auto& in) {
    return ops::linear(like(in[0]), in[0], Tensor(), WeightLayout::kOutIn);
  });
  check({{5}, {5}},
        [&](const auto& in) { return ops::layer_norm(like(in[0]), in[0], in[1], 1e-5); });
  check({{3, 5}}, [&](const auto& in) { return ops::add(like(in[0]), in[0]); });
  check({{5, 7}}, [&](const auto& in) { return ops::embedding(indices, in[0]); });
}

TEST_P(Half, EveryOpReachesALeafWhoseMemoryIsFp32) {
  const auto check = [&](const std::vector<Shape>& shapes, const Op& op) {
    const auto gradients = fp32_gradients(coarse(shapes, GetParam()), op);
    const auto once = results_in(rank_, GetParam(), shapes, op);
    for (size_t i = 0; i < shapes.size(); ++i) {
      std::vector<double> expected = once[i + 1];  // rounded, then added to itself
      for (double& number : expected) {
        number *= 2;
      }
      EXPECT_EQ(rank_.numbers(gradients[i]), expected) << i;
    }
  };
  check({{7, 3}}, [](const auto& in) { return ops::relu(in[0]); });
  check({{7, 3}}, [](const auto& in) { return ops::gelu(in[0]); });
  check({{7, 3}}, [](const auto& in) { return ops::dropout(in[0], {5, 2, 11, 0.3}); });
  check({{7, 3}, {7, 3}}, [](const auto& in) { return ops::add(in[0], in[1]); });
  check({{1, 5, 18}}, [](const auto& in) { return ops::causal_attention(in[0], 2); });
  check({{7, 3}}, [&](const auto& in) {
    return ops::linear(in[0], rank_.coarse({3, 5}, GetParam(), "weight"), Tensor());
  });
  check({{7, 3}}, [&](const auto& in) {
    return ops::layer_norm(in[0], rank_.coarse({3}, GetParam(), "weight"), Tensor(), 1e-5);
  });
  check({{7, 3}}, [&](const auto& in) {
    return ops::mse(in[0], rank_.coarse({7, 3}, GetParam(), "target"));
  });
}

TEST_P(Half, GradientsOfFp32ParametersMayBeKeptIn16Bits) {
  FakeSink sink(GetParam());
  Parameter w("w", rank_.coarse({3, 5}, DType::kFloat32, "w"));
  w.set_sink(&sink);
  const Tensor x = rank_.coarse({7, 3}, DType::kFloat32, "x");
  const Tensor dy = rank_.coarse({7, 5}, DType::kFloat32, "dy");
  const auto backward = [&] {
    autograd::backward(ops::linear(x, w.tensor(), Tensor()), dy);
    return sink.memory;
  };
  const Tensor expected = Tensor::empty(rank_.context, {3, 5}, DType::kFloat32);
  rank_.backend->linear_backward_weight(stream(), x, dy, WeightLayout::kInOut, expected, false);
  const Tensor once = rank_.converted(expected, GetParam());
  EXPECT_EQ(rank_.numbers(backward()), rank_.numbers(once));
  rank_.backend->accumulate(stream(), expected, once);
  EXPECT_EQ(rank_.numbers(backward()), rank_.numbers(once));
}

TEST_P(Half, LossesAreFp32) {
  const Tensor targets = rank_.tensor<int32_t>({2}, {1, 0});
  const Tensor logits = rank_.coarse({2, 3}, GetParam(), "logits");
  const Tensor wide = rank_.converted(logits, DType::kFloat32);
  EXPECT_EQ(ops::cross_entropy(logits, targets).to_host<float>(),
            ops::cross_entropy(wide, targets).to_host<float>());
  const Tensor target = rank_.coarse({2, 3}, GetParam(), "target");
  EXPECT_EQ(ops::mse(logits, target).to_host<float>(),
            ops::mse(wide, rank_.converted(target, DType::kFloat32)).to_host<float>());
}

TEST_P(Half, OptimizersTakeGradientsOf16Bits) {
  const Tensor gradient = rank_.coarse({101}, GetParam(), "gradient");
  for_each_rule([&]<typename Rule>() {
    SCOPED_TRACE(Rule::kName);
    const Rule rule({.learning_rate = 0.01, .momentum = 0.9});
    const auto run = [&](DType dtype) {
      const Tensor g = rank_.converted(gradient, dtype);
      const Tensor parameter = rank_.normal({101}, DType::kFloat32, "parameter");
      const std::vector<Tensor> states = update_states(kNumStates<Rule>, [&](int) {
        return Tensor::zeros(rank_.context, {101}, DType::kFloat32);
      });
      rank_.backend->update(stream(), {rule}, 0.3, g, parameter, states);
      rank_.backend->update(stream(), {rule}, 0.3, g, parameter, states);
      return parameter.to_host<float>();
    };
    EXPECT_EQ(run(GetParam()), run(DType::kFloat32));
    EXPECT_NE(run(GetParam()), rank_.normal({101}, DType::kFloat32, "parameter").to_host<float>());
  });
}

TEST_P(Half, StatisticsOf16BitGradients) {
  const auto run = [&](const Tensor& gradient) {
    const Tensor statistics = Tensor::zeros(rank_.context, {kStatisticsWords}, DType::kInt64);
    statistics.data<int64_t>()[kFirstNonFiniteWord] = kAllFinite;
    rank_.backend->gradient_statistics(stream(), gradient, 4, 100, statistics);
    return statistics.to_host<int64_t>();
  };
  const Tensor gradient = rank_.coarse({101}, GetParam(), "gradient");
  EXPECT_EQ(run(gradient), run(rank_.converted(gradient, DType::kFloat32)));
  std::vector<int64_t> words = run(vector({3, 4, 0, 0, 1, 1, kInf, kNan, 2}, GetParam()));
  EXPECT_EQ(words[kFirstNonFiniteWord], 106);
  EXPECT_EQ(words[kNonFiniteKindWord], kInfinity);
  EXPECT_EQ(round_exact_sum({words.data(), kExactSumWords}), 29.0);
}

TEST_P(Half, PoisonIsNaN) {
  TestRank poisoned({.poison = true});
  const Tensor fresh = Tensor::empty(poisoned.context, {3}, GetParam());
  for (const double number : poisoned.numbers(fresh)) {
    EXPECT_TRUE(std::isnan(number));
  }
}

TEST_P(Half, CopyAndAccumulateBetweenAnyTwoFloatingTypes) {
  const auto check = [&](DType from, DType to) {
    const Tensor source = vector({0.25, kNan, -1.5}, from);
    std::vector<double> numbers = rank_.numbers(rank_.converted(source, to));
    EXPECT_EQ(numbers[0], 0.25);
    EXPECT_TRUE(std::isnan(numbers[1]));
    EXPECT_EQ(numbers[2], -1.5);
    const Tensor out = vector({0.5, -3.0, kInf}, to);
    rank_.backend->accumulate(stream(), source, out);
    numbers = rank_.numbers(out);
    EXPECT_EQ(numbers[0], 0.75);
    EXPECT_TRUE(std::isnan(numbers[1]));
    EXPECT_EQ(numbers[2], kInf);
  };
  for (const DType other : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
    check(GetParam(), other);
    check(other, GetParam());
  }
  EXPECT_EQ(rank_.converted(vector({1e6}, DType::kFloat32), DType::kFloat16).item(), kInf);
}

TEST(Accumulate, Fp64IntoFp32IsAddedInFp64) {
  TestRank rank;
  const Tensor sum = rank.tensor<float>({1}, {1});
  // In fp32 it would be a tie, and the sum 1.
  const Tensor source = rank.tensor<double>({1}, {0x1p-24 + 0x1p-50});
  rank.backend->accumulate(rank.context.compute(), source, sum);
  EXPECT_EQ(sum.item(), 1 + 0x1p-23);
}

}  // namespace
}  // namespace zerolab

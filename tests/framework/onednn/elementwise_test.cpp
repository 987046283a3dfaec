#include <gtest/gtest.h>

#include <vector>

#include "framework/kernels/dropout_key.h"
#include "tests/framework/onednn/half_comparison.h"
#include "tests/framework/onednn/plain_comparison.h"

namespace zerolab::test::onednn {
namespace {

TEST_F(Onednn, ElementwiseAgreesWithPlain) {
  for (const int64_t size : {1L, 3L, 17L, 65L, 127L, 257L, 100003L}) {
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(testing::Message() << size << " " << accumulate);
      compare(
          [&](Rank& rank) {
            Backend& backend = *rank.backend;
            const Tensor x = rank.random(Shape{size}, 1, 3.0F);
            const Tensor dy = rank.random(Shape{size}, 2);
            Outputs outputs;
            const auto with_out = [&](const auto& kernel) {
              const Tensor out = rank.random(Shape{size}, 3);
              kernel(out);
              outputs.push_back(out.to_host<float>());
            };
            Stream& stream = rank.stream();
            with_out([&](const Tensor& out) { backend.fill(stream, out, 0.1); });
            with_out([&](const Tensor& out) { backend.copy(stream, x, out); });
            with_out([&](const Tensor& out) { backend.accumulate(stream, x, out); });
            with_out([&](const Tensor& out) { backend.add(stream, x, dy, out); });
            with_out([&](const Tensor& out) { backend.scale(stream, x, 0.3, out, accumulate); });
            with_out([&](const Tensor& out) { backend.relu_forward(stream, x, out); });
            with_out(
                [&](const Tensor& out) { backend.relu_backward(stream, x, dy, out, accumulate); });
            with_out([&](const Tensor& out) { backend.gelu_forward(stream, x, out); });
            with_out(
                [&](const Tensor& out) { backend.gelu_backward(stream, x, dy, out, accumulate); });
            return outputs;
          },
          5e-6);
    }
  }
}

TEST_F(Onednn, AddRepeatsTheSecondOperand) {
  for (const int64_t period : {1L, 7L, 16L, 333L, 5000L}) {
    compare(
        [&](Rank& rank) {
          const Tensor a = rank.random(Shape{23, period}, 1);
          rank.backend->add(rank.stream(), a, rank.random(Shape{period}, 2), a);
          return Outputs{a.to_host<float>()};
        },
        0.0);
  }
}

TEST_F(Onednn, GeluOfExtremeNumbers) {
  compare(
      [&](Rank& rank) {
        const Tensor x = rank.tensor(
            Shape{8}, {0.0F, -0.0F, -100.0F, 100.0F, -5.5F, 1e-30F, 3e38F, kFloatInfinity});
        const Tensor out = Tensor::empty_like(x);
        rank.backend->gelu_forward(rank.stream(), x, out);
        return Outputs{out.range(0, 6).to_host<float>(), out.range(6, 2).to_host<float>()};
      },
      1e-6);
}

TEST_F(Onednn, DropoutIsPlainsToTheBit) {
  for (const int64_t size : kOddSizes) {
    for (const bool accumulate : {false, true}) {
      compare(
          [&](Rank& rank) {
            const DropoutKey key = {.seed = 42, .op = 3, .first_sample = 5, .probability = 0.3};
            const Tensor x = rank.random(Shape{7, 37, size}, 1);
            const Tensor out = rank.random(x.shape(), 2);
            rank.backend->dropout(rank.stream(), x, key, out, accumulate);
            return Outputs{out.to_host<float>()};
          },
          0.0);
    }
  }
}

TEST_F(Onednn, GeluDoesNotDependOnCuts) {
  constexpr int64_t kSize = 100003;
  const auto gelu = [&](bool cut) {
    Rank rank(make_onednn_backend(), 2);
    const Tensor x = rank.random(Shape{kSize}, 1);
    const Tensor out = Tensor::empty_like(x);
    for_cuts(kSize, cut, [&](int64_t begin, int64_t n) {
      rank.backend->gelu_forward(rank.stream(), x.range(begin, n), out.range(begin, n));
    });
    return out.to_host<float>();
  };
  EXPECT_EQ(gelu(false), gelu(true));
}

TEST_P(OnednnHalf, Elementwise) {
  for (const int64_t size : {1L, 3L, 17L, 257L, 100003L}) {
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(testing::Message() << size << " " << accumulate);
      compare([&](TypedRank& run) {
        Backend& backend = run.backend();
        Stream& stream = run.stream();
        const Tensor x = run.random(Shape{size}, 1, 3.0F);
        const Tensor dy = run.random(Shape{size}, 2);
        std::vector<Tensor> outputs;
        const auto with_out = [&](const auto& kernel) {
          outputs.push_back(run.random(Shape{size}, 3));
          kernel(outputs.back());
        };
        with_out([&](const Tensor& out) { backend.fill(stream, out, 0.1); });
        with_out([&](const Tensor& out) { backend.copy(stream, x, out); });
        with_out([&](const Tensor& out) { backend.accumulate(stream, x, out); });
        with_out([&](const Tensor& out) { backend.add(stream, x, dy, out); });
        with_out([&](const Tensor& out) { backend.add(stream, x, dy.range(0, 1), out); });
        with_out([&](const Tensor& out) { backend.scale(stream, x, 0.3, out, accumulate); });
        with_out([&](const Tensor& out) { backend.relu_forward(stream, x, out); });
        with_out([&](const Tensor& out) { backend.relu_backward(stream, x, dy, out, accumulate); });
        with_out([&](const Tensor& out) { backend.gelu_forward(stream, x, out); });
        with_out([&](const Tensor& out) { backend.gelu_backward(stream, x, dy, out, accumulate); });
        with_out([&](const Tensor& out) {
          backend.dropout(stream, x, {.seed = 4, .op = 2, .first_sample = 5, .probability = 0.3},
                          out, accumulate);
        });
        return outputs;
      });
    }
  }
}

TEST_P(OnednnHalf, AccumulatesAndCopiesAcrossTypes) {
  constexpr int64_t kSize = 70001;
  // Of numbers of 16 bits: what is added is exact in either type.
  compare([&](TypedRank& run) {
    const Tensor sum = run.random(Shape{kSize}, 1, kFloat32);
    run.backend().accumulate(run.stream(), run.random(Shape{kSize}, 2), sum);
    const Tensor narrow_sum = run.random(Shape{kSize}, 3);
    run.backend().accumulate(run.stream(), sum, narrow_sum);
    const Tensor copied = run.random(Shape{kSize}, 4);
    run.backend().copy(run.stream(), sum, copied);
    return std::vector<Tensor>{sum, narrow_sum, copied};
  });
}

TEST_P(OnednnHalf, ConvertsBetweenTheTwoTypesOfSixteenBits) {
  const DType other = half() == DType::kBFloat16 ? DType::kFloat16 : DType::kBFloat16;
  TypedRank run(half(), half(), 1);
  const Tensor source = run.random(Shape{1003}, 1);
  const Tensor out = Tensor::empty(run.rank.context, source.shape(), other);
  run.backend().copy(run.stream(), source, out);
  std::vector<float> expected = values_of(source);
  for (float& value : expected) {
    value = rounded(other, value);
  }
  EXPECT_EQ(values_of(out), expected);
}

}  // namespace
}  // namespace zerolab::test::onednn

#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/nn/linear.h"
#include "framework/ops/cross_entropy.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/linear.h"
#include "framework/ops/mse.h"
#include "framework/tensor/backend.h"
#include "tests/framework/fake_sink.h"
#include "tests/framework/gradient_check.h"

namespace zerolab {
namespace {

TEST(Autograd, ModuleUsedThreeTimesHasTheRightGradient) {
  TestRank rank;
  const nn::Linear layer({rank.context, 3, DType::kFloat64, "layer"}, 5, 5, true, 0.5);
  Parameter x("x", rank.normal({3, 5}, DType::kFloat64, "x"));
  std::vector<Parameter*> parameters = layer.parameters();
  parameters.push_back(&x);
  expect_gradients(rank, parameters, [&] {
    const Tensor once = ops::gelu(layer.forward(x.tensor()));
    return ops::add(layer.forward(ops::gelu(layer.forward(once))), once);
  });
}

TEST(Autograd, TwoLossesAddTheirGradients) {
  TestRank rank;
  const Tensor target = rank.normal({3, 5}, DType::kFloat64, "target");
  const Tensor other = rank.normal({3, 5}, DType::kFloat64, "other");
  Parameter x("x", rank.normal({3, 5}, DType::kFloat64, "x"));
  expect_gradients(rank, {&x}, [&] {
    const Tensor shared = ops::gelu(x.tensor());
    return ops::add(ops::mse(shared, target), ops::mse(shared, other));
  });
}

TEST(Autograd, SinkHearsReadyOnceAfterTheLastContribution) {
  TestRank rank;
  Parameter w("w", rank.normal({5, 5}, DType::kFloat32, "w"));
  Parameter b("b", rank.normal({5}, DType::kFloat32, "b"));
  FakeSink w_sink;
  FakeSink b_sink;
  w.set_sink(&w_sink);
  b.set_sink(&b_sink);
  Tensor x = rank.normal({2, 5}, DType::kFloat32, "x");
  for (int use = 0; use < 3; ++use) {
    x = ops::linear(x, w.tensor(), use == 0 ? b.tensor() : Tensor());
  }
  autograd::backward(x, rank.ones_like(x));
  EXPECT_EQ(w_sink.log, "open w;open w;open w;ready w;");
  EXPECT_EQ(b_sink.log, "open b;ready b;");
  EXPECT_FALSE(w.gradient().defined());
}

/// So that its communication may begin before the input's gradient is computed.
TEST(Autograd, AWeightIsReadyBeforeTheInputsGradientIsAskedFor) {
  TestRank rank;
  Parameter w("w", rank.normal({5}, DType::kFloat32, "w"));
  Parameter upstream("upstream", rank.normal({5}, DType::kFloat32, "upstream"));
  FakeSink sink;
  w.set_sink(&sink);
  const Tensor x = ops::gelu(upstream.tensor());
  std::string heard;
  const Tensor y =
      autograd::record("two inputs", rank.normal({5}, DType::kFloat32, "y"), {x, w.tensor()},
                       [&](const Tensor& dy, autograd::Gradients& gradients) {
                         gradients.pass(1, dy);
                         heard = sink.log;
                         gradients.destination(0);
                         heard += sink.log;
                       });
  autograd::backward(y, rank.ones_like(y));
  EXPECT_EQ(heard, "open w;open w;ready w;");
  EXPECT_EQ(sink.log, "open w;ready w;");
}

TEST(Autograd, GradientsAddOverBackwardsUntilZeroed) {
  TestRank rank;
  Parameter x("x", rank.tensor<float>({2}, {1, 2}));
  for (int i = 0; i < 2; ++i) {
    const Tensor y = ops::add(x.tensor(), x.tensor());
    autograd::backward(y, rank.ones_like(y));
  }
  EXPECT_EQ(x.gradient().to_host<float>(), (std::vector<float>{4, 4}));
  x.zero_gradient();
  EXPECT_FALSE(x.gradient().defined());
}

TEST(Autograd, SecondBackwardIsRefused) {
  TestRank rank;
  Parameter x("x", rank.normal({3}, DType::kFloat32, "x"));
  const Tensor y = ops::gelu(x.tensor());
  autograd::backward(y, rank.ones_like(y));
  EXPECT_THROW(autograd::backward(y, rank.ones_like(y)), Error);
}

TEST(Autograd, BackwardNeedsHistoryAndASeedOfTheSameShapeAndDtype) {
  TestRank rank;
  Parameter x("x", rank.normal({3}, DType::kFloat32, "x"));
  const Tensor constant = ops::gelu(x.value());
  EXPECT_THROW(autograd::backward(constant, rank.ones_like(constant)), Error);
  const Tensor y = ops::gelu(x.tensor());
  EXPECT_THROW(autograd::backward(y, rank.normal({4}, DType::kFloat32, "seed")), Error);
  EXPECT_THROW(autograd::backward(y, rank.normal({3}, DType::kBFloat16, "seed")), Error);
}

TEST(Autograd, SavedTensorsAreReleasedByTheBackward) {
  TestRank rank;
  const CategoryBytes before = rank.context.ledger().snapshot().current;
  {
    const nn::Linear layer({rank.context, 3, DType::kFloat32, "layer"}, 64, 64, true, 0.1);
    const Tensor x = rank.normal({32, 64}, DType::kFloat32, "x");
    Tensor y = layer.forward(ops::gelu(layer.forward(x)));
    autograd::backward(y, rank.ones_like(y));
    const auto held = rank.context.ledger().snapshot();
    EXPECT_EQ(held.current_of(Category::kActivations), x.bytes() + y.bytes());
    EXPECT_EQ(held.current_of(Category::kParameters), (64 * 64 + 64) * 4);
    EXPECT_EQ(held.current_of(Category::kGradients), (64 * 64 + 64) * 4);
  }
  EXPECT_EQ(rank.context.ledger().snapshot().current, before);
}

TEST(Autograd, NothingIsSavedWithoutGradients) {
  TestRank rank;
  Parameter w("w", rank.normal({8, 8}, DType::kFloat32, "w"));
  const Tensor x = rank.normal({4, 8}, DType::kFloat32, "x");
  const int64_t before = rank.context.ledger().snapshot().total;
  {
    const NoGradScope no_grad(rank.context);
    const Tensor y = ops::gelu(ops::linear(x, w.tensor(), Tensor()));
    EXPECT_EQ(y.producer(), nullptr);
    EXPECT_EQ(rank.context.ledger().snapshot().total, before + y.bytes());
    const int64_t peak = rank.context.ledger().snapshot().total_peak;
    const Tensor fused = ops::linear_gelu(x, w.tensor(), Tensor());
    EXPECT_EQ(fused.to_host<float>(), y.to_host<float>());
    EXPECT_EQ(rank.context.ledger().snapshot().total_peak, peak);  // no pre-activation
  }
  w.set_frozen(true);
  EXPECT_EQ(ops::linear(x, w.tensor(), Tensor()).producer(), nullptr);
}

TEST(Autograd, LongChainDoesNotRecurse) {
  constexpr int kLength = 100'000;
  TestRank rank;
  Parameter x("x", rank.tensor<float>({1}, {1}));
  Parameter zero("zero", rank.tensor<float>({1}, {0}));
  const auto chain = [&] {
    Tensor y = x.tensor();
    for (int i = 0; i < kLength; ++i) {
      y = ops::add(y, zero.tensor());
    }
    return y;
  };
  chain();  // dropped without a backward
  const Tensor y = chain();
  autograd::backward(y, rank.ones_like(y));
  EXPECT_EQ(x.gradient().to_host<float>()[0], 1.0F);
  EXPECT_EQ(zero.gradient().to_host<float>()[0], static_cast<float>(kLength));
}

TEST(Autograd, OpsWaitForTheReadyEventOfAParameter) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    TestRank rank({.streams = StreamMode::kLazy, .lazy_seed = seed});
    Parameter x("x", rank.tensor<float>({1}, {1}));
    rank.context.communication().wait(rank.context.compute().record());
    rank.backend->fill(rank.context.communication(), x.value(), 7.0);
    x.set_ready(rank.context.communication().record());
    EXPECT_EQ(ops::relu(x.tensor()).to_host<float>()[0], 7.0F) << "lazy seed " << seed;
  }
}

TEST(Ops, RefuseWrongInputsClearly) {
  TestRank rank;
  TestRank other;
  const Tensor x = rank.normal({3, 5}, DType::kFloat32, "x");
  const Tensor w = rank.normal({4, 5}, DType::kFloat32, "w");
  const Tensor ids = rank.tensor<int32_t>({2}, {0, 1});
  EXPECT_THROW(ops::linear(x, w, Tensor()), Error);
  EXPECT_THROW(ops::linear(x, Tensor(), Tensor()), Error);
  EXPECT_THROW(ops::linear(x, rank.normal({5, 4}, DType::kFloat64, "w"), Tensor()), Error);
  EXPECT_THROW(ops::linear(x, other.normal({5, 4}, DType::kFloat32, "w"), Tensor()), Error);
  EXPECT_THROW(ops::add(x, w), Error);
  EXPECT_THROW(ops::cross_entropy(x, ids), Error);
  EXPECT_THROW(ops::cross_entropy(Parameter("x", x).tensor(), rank.tensor<int32_t>({3}, {0, 0, 0})),
               Error);
  EXPECT_THROW(ops::dropout(x, {0, 0, 0, 1.0}), Error);
  EXPECT_THROW(ops::relu(ids), Error);
  try {
    ops::linear(x, w, Tensor());
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "[linear] the last extent of x must be the weight's input; got [3, 5], expected 4 "
                 "for weight [4, 5]");
  }
}

}  // namespace
}  // namespace zerolab

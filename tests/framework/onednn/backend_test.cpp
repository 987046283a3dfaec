#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "framework/core/error.h"
#include "framework/kernels/weight_layout.h"
#include "framework/update_rules/update_rule.h"
#include "tests/framework/onednn/half_comparison.h"
#include "tests/framework/onednn/plain_comparison.h"

namespace zerolab::test::onednn {
namespace {

TEST_F(Onednn, RefusesFp64) {
  Rank rank(make_onednn_backend(), 1);
  const Tensor x = Tensor::empty(rank.context, Shape{4}, DType::kFloat64);
  EXPECT_THROW(rank.backend->gelu_forward(rank.stream(), x, x), Error);
  EXPECT_THROW(rank.backend->add(rank.stream(), x, x, x), Error);
  const Tensor matrix = x.view(Shape{2, 2});
  EXPECT_THROW(rank.backend->linear_forward(rank.stream(), matrix, matrix, WeightLayout::kInOut,
                                            Tensor(), matrix),
               Error);
}

TEST_P(OnednnHalf, BitsDoNotDependOnCuts) {
  constexpr int64_t kSize = 100003;
  const auto run_cut = [&](bool cut) {
    TypedRank run(half(), half(), 2);
    const Tensor a = run.random(Shape{kSize}, 1);
    const Tensor b = run.random(Shape{kSize}, 2);
    const Tensor wide = run.random(Shape{kSize}, 3, kFloat32);
    std::vector<Tensor> outputs;
    for (uint32_t seed = 4; seed < 12; ++seed) {
      outputs.push_back(run.random(Shape{kSize}, seed, seed < 9 ? half() : kFloat32, 0.1F));
    }
    run.backend().fill(run.stream(), outputs[7], 0.5);
    for_cuts(kSize, cut, [&](int64_t begin, int64_t n) {
      Backend& backend = run.backend();
      Stream& stream = run.stream();
      const auto part = [&](const Tensor& tensor) { return tensor.range(begin, n); };
      backend.add(stream, part(a), part(b), part(outputs[0]));
      backend.gelu_forward(stream, part(a), part(outputs[1]));
      backend.gelu_backward(stream, part(a), part(b), part(outputs[2]), true);
      backend.accumulate(stream, part(wide), part(outputs[3]));
      const std::byte* const sources[] = {part(outputs[4]).raw(), part(a).raw(), part(b).raw()};
      backend.reduce_in_order(
          sources, half(), 3.0,
          {part(outputs[4]).raw(), static_cast<size_t>(part(outputs[4]).bytes())});
      backend.update(stream, {AdamW({.learning_rate = 1e-3, .step = 2})}, 1.0, part(a),
                     part(outputs[5]), std::array{part(outputs[6]), part(outputs[7])});
    });
    std::vector<std::vector<float>> values;
    for (const Tensor& output : outputs) {
      values.push_back(values_of(output));
    }
    return values;
  };
  EXPECT_EQ(run_cut(false), run_cut(true));
}

}  // namespace
}  // namespace zerolab::test::onednn

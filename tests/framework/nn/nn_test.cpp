#include <gtest/gtest.h>

#include <cmath>

#include "framework/nn/embedding.h"
#include "framework/nn/layer_norm.h"
#include "framework/nn/linear.h"
#include "tests/framework/test_rank.h"

namespace zerolab {
namespace {

std::vector<float> initial(uint64_t seed, std::string_view name, int64_t size, int world_size = 1) {
  TestRank rank({.rank = world_size - 1, .world_size = world_size});
  const Tensor out = Tensor::empty(rank.context, {size}, DType::kFloat32);
  nn::initialize(out, nn::Init::normal(0.02), seed, name);
  return out.to_host<float>();
}

TEST(Init, DependsOnSeedNameAndIndexAlone) {
  const std::vector<float> values = initial(1, "a", 101);
  EXPECT_EQ(initial(1, "a", 101, 4), values);
  const std::vector<float> shorter = initial(1, "a", 50);
  EXPECT_EQ(shorter, std::vector<float>(values.begin(), values.begin() + 50));
  EXPECT_NE(initial(2, "a", 101), values);
  EXPECT_NE(initial(1, "b", 101), values);
}

TEST(Init, IsNormal) {
  const std::vector<float> values = initial(1, "a", 100'000);
  double sum = 0;
  double squares = 0;
  int within_one = 0;
  for (const float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
    within_one += std::abs(value) < 0.02 ? 1 : 0;
  }
  EXPECT_NEAR(sum / 100'000, 0.0, 3e-4);
  EXPECT_NEAR(std::sqrt(squares / 100'000), 0.02, 3e-4);
  EXPECT_NEAR(within_one / 100'000.0, 0.6827, 0.01);
}

TEST(Init, In16BitsIsTheFp32NumberRounded) {
  TestRank rank;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const Tensor expected =
        rank.converted(rank.normal({1001}, DType::kFloat32, "a"), dtype);  // odd: half a pair
    EXPECT_EQ(rank.numbers(rank.normal({1001}, dtype, "a")), rank.numbers(expected));
    const nn::LayerNorm norm({rank.context, 1, dtype, "norm"}, 3, true);
    EXPECT_EQ(norm.parameters()[0]->value().dtype(), dtype);
    EXPECT_EQ(rank.numbers(norm.parameters()[0]->value()), std::vector<double>(3, 1.0));
  }
}

class Pair final : public nn::Module {
 public:
  explicit Pair(const nn::Scope& scope)
      : Module(scope),
        table_(scope.child("table"), 7, 3, 0.1, true),
        linear_(scope.child("linear"), 3, 5, false, 0.1),
        norm_(scope.child("norm"), 5, true) {
    add_module(table_);
    add_module(linear_);
    add_module(norm_);
    add_parameter(scope, "own", {2}, nn::Init::ones());
  }

 private:
  nn::Embedding table_;
  nn::Linear linear_;
  nn::LayerNorm norm_;
};

TEST(Module, ListsParametersWithDottedNamesInOrder) {
  TestRank rank;
  const Pair pair({rank.context, 1, DType::kFloat32, "pair"});
  std::vector<std::string> names;
  int64_t bytes = 0;
  for (const Parameter* parameter : pair.parameters()) {
    names.push_back(parameter->name());
    bytes += parameter->value().bytes();
  }
  EXPECT_EQ(names, (std::vector<std::string>{"pair.table.weight", "pair.linear.weight",
                                             "pair.norm.weight", "pair.norm.bias", "pair.own"}));
  EXPECT_TRUE(pair.parameters()[0]->used_twice());
  EXPECT_EQ(pair.parameters()[2]->value().to_host<float>(), std::vector<float>(5, 1.0F));
  EXPECT_EQ(pair.parameters()[3]->value().to_host<float>(), std::vector<float>(5, 0.0F));
  EXPECT_EQ(rank.context.ledger().snapshot().current_of(Category::kParameters), bytes);
}

}  // namespace
}  // namespace zerolab

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "framework/plain/backend.h"
#include "tests/spine/faults/variants.h"

namespace zerolab::test {
namespace {

TEST(Faults, Row1_ARankOwnsNothing) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{1, 1}, {1}}) {
    for (const int64_t alignment : {1, 128}) {
      RunSetup base = exact_setup(8);
      base.engine.alignment = alignment;
      base.inspect = [](RankContext&, Communicator& communicator, zero::Engine& engine, int) {
        if (communicator.rank() == 7) {
          ASSERT_TRUE(engine.layout().segments(7).empty());
        }
      };
      expect_exact({.shapes = flat_shapes(sizes)}, base);
    }
  }
  // An MLP 1 → 1 with bias on eight ranks learns what one process with the whole batch learns.
  RunSetup setup = exact_setup(8);
  RunSetup alone = exact_setup(1);
  alone.micro_batch = 8;
  const Outcome expected = run(*backend, tiny_mlp({1, 1}), alone);
  for (const RunSetup& stage : stages_of(setup)) {
    const Outcome outcome = run(*backend, tiny_mlp({1, 1}), stage);
    EXPECT_NEAR(outcome.weights[0], expected.weights[0], 1e-6);
    EXPECT_NEAR(outcome.weights[1], expected.weights[1], 1e-6);
  }
}

TEST(Faults, Row2_SizesThatDivideByNothing) {
  const std::vector<std::vector<int64_t>> models = {
      {25}, {1, 17, 7}, {101}, {3, 64, 1, 33}, {4099}, {1000, 1, 2048, 3, 1047}};
  for (const std::vector<int64_t>& sizes : models) {
    const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    for (const int world_size : {2, 3, 4, 5, 7}) {
      for (const int64_t bucket :
           {int64_t{1}, int64_t{7}, int64_t{64}, total - 1, total, total + 1, 10 * total}) {
        RunSetup base = exact_setup(world_size);
        base.steps = 2;
        base.engine.reduce_bucket_size = bucket;
        base.engine.alignment = world_size % 2 == 0 ? 1 : 128;
        expect_exact({.shapes = flat_shapes(sizes)}, base);
      }
    }
  }
}

TEST(Faults, Row2_PaddingIsStillZeroAfterAHundredSteps) {
  RunSetup base = exact_setup(3);
  base.steps = 100;
  base.engine.reduce_bucket_size = 64;
  base.inspect = [](RankContext&, Communicator&, zero::Engine& engine, int step) {
    if (step < 100) {
      return;
    }
    engine.wait_for_parameters();
    std::vector<float> flat = engine.flat_parameters().to_host<float>();
    for (const zero::ParameterRange& range : engine.layout().ranges()) {
      std::fill_n(flat.begin() + range.offset, range.numel, 0.0F);
    }
    EXPECT_TRUE(std::ranges::all_of(flat, [](float value) { return value == 0.0F; }));
    EXPECT_GT(engine.layout().padding(), 0);
  };
  expect_exact({.shapes = flat_shapes({3, 64, 1, 33})}, base);
}

TEST(Faults, Row3_MoreRanksThanTensors) {
  for (const int world_size : {3, 5, 7}) {
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{40}, {300, 2}}) {
      expect_exact({.shapes = flat_shapes(sizes)}, exact_setup(world_size, 3));
    }
  }
}

TEST(Faults, Row4_OneHugeTensorAndManyTinyOnes) {
  std::vector<zero::LayoutParameter> parameters = {{"huge", 50'000 * 64}};
  for (int i = 0; i < 200; ++i) {
    parameters.push_back({"tiny" + std::to_string(i), i % 3 == 0 ? 64 : 1});
  }
  const zero::Layout layout(parameters,
                            {.world_size = 4, .bucket_size = zero::auto_bucket_size(3'206'000)});
  std::vector<int64_t> memory(4);
  std::vector<int64_t> of_huge(4);
  for (const zero::Bucket& bucket : layout.buckets()) {
    for (const zero::Slice& slice : bucket.slices.all()) {
      memory[slice.owner] += slice.numel;
    }
  }
  for (int rank = 0; rank < 4; ++rank) {
    for (const zero::Segment& segment : layout.segments(rank)) {
      of_huge[rank] += segment.parameter == 0 ? segment.numel : 0;
    }
  }
  EXPECT_EQ(std::ranges::max(memory), std::ranges::min(memory));
  EXPECT_LE(std::ranges::max(of_huge) - std::ranges::min(of_huge), 128);
  EXPECT_LT(layout.padding(), 201 * 128 + 2 * 4 * 128);
}

TEST(Faults, Row5_AfterAnOddFirstParameterEveryViewIsStillAligned) {
  const auto is_aligned = [](const Tensor& tensor) {
    return reinterpret_cast<uintptr_t>(tensor.raw()) % 64 == 0;
  };
  for (const int64_t first : {1, 3}) {
    ExactModel model = {.shapes = flat_shapes({first, 100, 7, 129})};
    model.during_backward = [&](RankContext&, const autograd::Destination& destination) {
      EXPECT_TRUE(is_aligned(destination.tensor));
    };
    RunSetup base = exact_setup(3);
    base.engine.reduce_bucket_size = 110;
    base.inspect = [&](RankContext&, Communicator&, zero::Engine& engine, int) {
      for (const zero::ParameterRange& range : engine.layout().ranges()) {
        EXPECT_TRUE(is_aligned(engine.flat_parameters().range(range.offset, range.numel)));
      }
    };
    expect_exact(model, base);
  }
}

TEST(Faults, Row6_WeightDecayOfSomeParametersWhenSlicesCutThem) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  const ExactModel model = {.shapes = {Shape{10, 13}, Shape{50}, Shape{7, 3}, Shape{1}},
                            .coefficient = ExactModel::multiples_of(420)};
  RunSetup alone = exact_setup(1);
  alone.micro_batch = 420;
  alone.optimizer = {.weight_decay = 0.5};
  const Outcome expected = run(*backend, model.factory(), alone);
  RunSetup undecayed = alone;
  undecayed.optimizer.weight_decay = 0.0;
  const std::vector<float> other = run(*backend, model.factory(), undecayed).weights;
  EXPECT_NE(expected.weights[0], other[0]);      // of the matrix
  EXPECT_EQ(expected.weights[130], other[130]);  // of the vector after it
  for (const int world_size : {2, 3, 4, 7}) {
    RunSetup base = alone;
    base.world_size = world_size;
    base.micro_batch = 420 / world_size;
    base.engine.alignment = 1;
    for (const RunSetup& setup : stages_of(base)) {
      EXPECT_EQ(run(*backend, model.factory(), setup).weights, expected.weights)
          << setup.to_string();
    }
  }
}

/// A group of its own for one parameter: half the learning rate, thrice the decay.
TEST(Faults, Row6_ParameterGroupsWhenSlicesCutThem) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  const ExactModel model = {.shapes = flat_shapes({130, 50, 21, 1}),
                            .coefficient = ExactModel::multiples_of(420)};
  RunSetup alone = exact_setup(1);
  alone.micro_batch = 420;
  alone.optimizer = {.name = "sgd", .weight_decay = 0.5};
  alone.optimizer.group_of = [](const Parameter& parameter) {
    return parameter.name() == "p1" ? optim::ParameterGroup{0.5, 3.0} : optim::ParameterGroup{};
  };
  alone.steps = 1;
  const std::vector<float> expected = run(*backend, model.factory(), alone).weights;
  // w -= lr · factor · (gradient + decay · factor · w), from w = 1.
  for (const auto& [index, parameter, rate, decay] :
       {std::tuple{0, 0, 0.0625, 0.5}, std::tuple{131, 1, 0.03125, 1.5}}) {
    double gradient = 0.0;
    for (int64_t sample = 0; sample < 420; ++sample) {
      gradient += model.coefficient(sample, parameter, parameter == 0 ? 0 : 1) / 420;
    }
    EXPECT_FLOAT_EQ(expected[index], static_cast<float>(1.0 - rate * (gradient + decay)));
  }
  for (const int world_size : {2, 3, 4, 7}) {
    RunSetup base = alone;
    base.world_size = world_size;
    base.micro_batch = 420 / world_size;
    base.engine.alignment = 1;
    for (const RunSetup& setup : stages_of(base)) {
      EXPECT_EQ(run(*backend, model.factory(), setup).weights, expected) << setup.to_string();
    }
  }
}

}  // namespace
}  // namespace zerolab::test

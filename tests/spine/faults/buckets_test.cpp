#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "framework/plain/backend.h"
#include "tests/spine/faults/variants.h"

namespace zerolab::test {
namespace {

/// Two branches of three parameters each.
ExactModel two_branches() { return {.shapes = flat_shapes({30, 5, 200, 7, 150, 40})}; }
const std::vector<int> kFirstBranch = {0, 1, 2};
const std::vector<int> kSecondBranch = {3, 4, 5};

std::vector<int> joined(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

TEST(Faults, Row7_RanksComputeTwoBranchesInDifferentOrder) {
  ExactModel model = two_branches();
  model.terms = [](int rank, int64_t) {
    return rank == 1 ? joined(kSecondBranch, kFirstBranch) : joined(kFirstBranch, kSecondBranch);
  };
  for (const int world_size : {2, 3, 4}) {
    for (const int micro_batches : {1, 3}) {
      for (const int64_t bucket : {1, 100, 1000}) {
        RunSetup base = exact_setup(world_size, micro_batches);
        base.engine.reduce_bucket_size = bucket;
        expect_exact(model, base);
      }
    }
  }
}

TEST(Faults, Row8_ABranchThatOneRankUsesAtSomeSteps) {
  ExactModel model = two_branches();
  model.terms = [](int rank, int64_t index) {
    return rank == 1 && index % 2 == 1 ? joined(kFirstBranch, kSecondBranch) : kFirstBranch;
  };
  for (const int world_size : {2, 4}) {
    for (const int micro_batches : {1, 3}) {
      for (const int64_t bucket : {1, 100, 1000}) {
        RunSetup base = exact_setup(world_size, micro_batches);
        base.steps = 4;
        base.timeout_s = 10.0;
        base.engine.reduce_bucket_size = bucket;
        expect_exact(model, base);
        base.engine.reduce_each_micro_batch = true;
        expect_exact(model, base);
      }
    }
  }
}

TEST(Faults, Row9_BucketOfAHundredAndParametersAroundIt) {
  std::vector<int64_t> sizes = {100, 101, 1000, 1, 99, 1};
  std::ranges::sort(sizes);
  int order = 0;
  do {
    if (order++ % 30 != 0) {  // 12 of the 360 orders
      continue;
    }
    for (const int64_t alignment : {1, 128}) {
      RunSetup base = exact_setup(3, 3);
      base.engine.reduce_bucket_size = 100;
      base.engine.alignment = alignment;
      expect_exact({.shapes = flat_shapes(sizes)}, base);
    }
  } while (std::ranges::next_permutation(sizes).found);
  EXPECT_EQ(order, 360);
}

TEST(Faults, Row10_AnyBucketSizeGivesTheSameBits) {
  const std::unique_ptr<Backend> backend = fast_backend();
  RunSetup base;
  base.world_size = 3;
  base.engine.gradient_clipping = 0.1;
  base.engine.reduce_bucket_size = 1;
  const Outcome expected = run(*backend, tiny_gpt(true), base);
  for (int64_t bucket = 1; bucket <= 1'000'000'000; bucket *= 10) {
    base.engine.reduce_bucket_size = bucket;
    for (const RunSetup& setup : stages_of(base)) {
      EXPECT_EQ(difference(run(*backend, tiny_gpt(true), setup), expected), "")
          << setup.to_string();
    }
  }
}

TEST(Faults, Row14_TheSameModuleThreeTimesInOneForward) {
  ExactModel model = two_branches();
  model.terms = [](int, int64_t) { return std::vector<int>{0, 2, 1, 3, 2, 4, 2, 5, 0}; };
  for (const std::set<int>& used_twice : {std::set<int>{}, {2}}) {
    model.used_twice = used_twice;
    for (const int64_t bucket : {1, 100, 1000}) {
      RunSetup base = exact_setup(3, 2);
      base.engine.reduce_bucket_size = bucket;
      expect_exact(model, base);
    }
  }
}

TEST(Faults, Row14_TwoLossesWithTwoBackwardsBeforeOneStep) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  // Both losses read all parameters; what they teach is the loss that reads everything twice.
  const ExactModel once = two_branches();
  ExactModel twice = once;
  twice.terms = [](int, int64_t) {
    return joined(joined(kFirstBranch, kSecondBranch), joined(kFirstBranch, kSecondBranch));
  };
  RunSetup base = exact_setup(3, 2);
  base.engine.reduce_bucket_size = 100;
  for (const RunSetup& setup : stages_of(base)) {
    on_engines(*backend, once.factory(), setup, [&](EngineRank& rank) {
      for (int64_t index = 0; index < setup.steps * 2; ++index) {
        rank.engine.begin_micro_batch();
        const int64_t sample = index * setup.world_size + rank.communicator.rank();
        rank.engine.backward(rank.model.loss(rank.context, sample, 1), /*last_backward=*/false);
        rank.engine.backward(rank.model.loss(rank.context, sample, 1));
        rank.engine.end_micro_batch();
        if (index % 2 == 1) {
          rank.engine.step({.learning_rate = setup.learning_rate});
        }
      }
      rank.engine.wait_for_parameters();
      const std::vector<float> weights = weights_of(rank.model.module->parameters());
      EXPECT_EQ(weights, expected_weights(twice, setup)) << setup.to_string();
    });
  }
}

/// What is declared final and is not would be reduced without the second loss: an error that names
/// the parameter.
TEST(Faults, Row14_ABackwardAfterTheFinalOneIsRefused) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  for (const RunSetup& setup : stages_of(exact_setup(2))) {
    try {
      on_engines(*backend, two_branches().factory(), setup, [&](EngineRank& rank) {
        rank.engine.begin_micro_batch();
        rank.engine.backward(rank.model.loss(rank.context, 0, 1));
        rank.engine.backward(rank.model.loss(rank.context, 0, 1));
      });
      FAIL() << setup.to_string();
    } catch (const std::exception& error) {
      EXPECT_NE(std::string(error.what()).find("the gradient of p5 arrived after"),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace zerolab::test

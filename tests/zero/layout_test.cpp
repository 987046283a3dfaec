#include "zero/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "framework/core/error.h"

namespace zerolab::zero {
namespace {

std::vector<LayoutParameter> parameters_of(const std::vector<int64_t>& sizes) {
  std::vector<LayoutParameter> parameters;
  for (size_t i = 0; i < sizes.size(); ++i) {
    parameters.push_back({.name = "p" + std::to_string(i), .numel = sizes[i], .own_bucket = false});
  }
  return parameters;
}

TEST(Layout, ReverseOrderAndBucketSize) {
  const Layout layout(parameters_of({100, 101, 1000, 1, 99, 1}),
                      {.world_size = 2, .bucket_size = 100, .alignment = 1});
  // From the back: 1 + 99 fill a bucket; 1 cannot be joined by 1000; 1000 and 101 pass 100; 100 is
  // one of its own.
  ASSERT_EQ(layout.buckets().size(), 5U);
  EXPECT_EQ(layout.buckets()[0].parameters, (std::vector<int>{5, 4}));
  EXPECT_EQ(layout.buckets()[1].parameters, (std::vector<int>{3}));
  EXPECT_EQ(layout.buckets()[2].parameters, (std::vector<int>{2}));
  EXPECT_EQ(layout.buckets()[3].parameters, (std::vector<int>{1}));
  EXPECT_EQ(layout.buckets()[4].parameters, (std::vector<int>{0}));
  EXPECT_EQ(layout.num_params(), 1302);
  EXPECT_EQ(layout.flat_numel(), 100 + 2 + 1000 + 102 + 100);
  EXPECT_EQ(layout.padding(), 2);
  EXPECT_EQ(layout.ranges()[2].offset, 102);
}

TEST(Layout, TiedParameterHasABucketOfItsOwn) {
  std::vector<LayoutParameter> parameters = parameters_of({10, 10, 10});
  parameters[1].own_bucket = true;
  const Layout layout(parameters, {.world_size = 1, .bucket_size = 1000, .alignment = 1});
  ASSERT_EQ(layout.buckets().size(), 3U);
  EXPECT_EQ(layout.buckets()[1].parameters, (std::vector<int>{1}));
}

/// One op makes the gradients of a module's parameters: in two buckets they would hold both open.
TEST(Layout, ParametersOfOneModuleShareABucket) {
  const std::vector<LayoutParameter> parameters = {{"h.0.weight", 60, false, "h.0"},
                                                   {"h.0.bias", 10, false, "h.0"},
                                                   {"h.1.weight", 90, false, "h.1"},
                                                   {"h.1.bias", 20, false, "h.1"},
                                                   {"scale", 5}};
  const auto buckets_of = [&](int64_t size) {
    std::vector<std::vector<int>> buckets;
    const Layout layout(parameters, {.world_size = 2, .bucket_size = size, .alignment = 1});
    for (const Bucket& bucket : layout.buckets()) {
      buckets.push_back(bucket.parameters);
    }
    return buckets;
  };
  using Buckets = std::vector<std::vector<int>>;
  EXPECT_EQ(buckets_of(1000), (Buckets{{4, 3, 2, 1, 0}}));
  EXPECT_EQ(buckets_of(120), (Buckets{{4, 3, 2}, {1, 0}}));
  EXPECT_EQ(buckets_of(114), (Buckets{{4}, {3, 2}, {1, 0}}));
  EXPECT_EQ(buckets_of(1), (Buckets{{4}, {3, 2}, {1, 0}}));
}

TEST(Layout, AutoBucketSize) {
  EXPECT_EQ(auto_bucket_size(1000), 1 << 16);
  EXPECT_EQ(auto_bucket_size(16 << 20), 1 << 20);
  EXPECT_EQ(auto_bucket_size(int64_t{1} << 40), 500'000'000);
}

TEST(Layout, RefusesNonsense) {
  EXPECT_THROW(Layout(parameters_of({1}), {.world_size = 0, .bucket_size = 1, .alignment = 1}),
               Error);
  EXPECT_THROW(Layout(parameters_of({1}), {.world_size = 1, .bucket_size = 0, .alignment = 1}),
               Error);
  EXPECT_THROW(Layout(parameters_of({1}), {.world_size = 1, .bucket_size = 1, .alignment = 0}),
               Error);
}

TEST(Layout, HashTellsMapsApart) {
  const LayoutOptions options = {.world_size = 2, .bucket_size = 64, .alignment = 1};
  const uint64_t hash = Layout(parameters_of({25, 7}), options).hash();
  EXPECT_EQ(hash, Layout(parameters_of({25, 7}), options).hash());
  EXPECT_NE(hash, Layout(parameters_of({7, 25}), options).hash());
  EXPECT_NE(
      hash,
      Layout(parameters_of({25, 7}), {.world_size = 2, .bucket_size = 10, .alignment = 1}).hash());
  EXPECT_NE(
      hash,
      Layout(parameters_of({25, 7}), {.world_size = 1, .bucket_size = 64, .alignment = 1}).hash());
  EXPECT_NE(
      hash,
      Layout(parameters_of({25, 7}),
             {.kind = LayoutKind::kContiguous, .world_size = 2, .bucket_size = 64, .alignment = 1})
          .hash());
}

struct Case {
  std::vector<int64_t> sizes;
  int world_size;
  int64_t bucket_size;
  int64_t alignment;
  LayoutKind kind;

  Layout layout() const {
    return Layout(parameters_of(sizes), {.kind = kind,
                                         .world_size = world_size,
                                         .bucket_size = bucket_size,
                                         .alignment = alignment});
  }
};

/// Sizes that divide by nothing, empty and huge parameters, more ranks than elements
/// (docs/faults.md 1–5).
std::vector<Case> awkward_cases() {
  const std::vector<std::vector<int64_t>> models = {{1},
                                                    {1, 1},
                                                    {25},
                                                    {7, 11, 83},
                                                    {4099},
                                                    {3, 1, 0, 5, 0},
                                                    {50'000 * 64, 1, 2, 3, 64},
                                                    {0, 127},
                                                    {128, 129},
                                                    {1, 3, 1000, 2}};
  std::vector<Case> cases;
  for (const std::vector<int64_t>& sizes : models) {
    const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    for (const int world_size : {1, 2, 3, 4, 5, 7, 8}) {
      for (const int64_t bucket :
           {int64_t{1}, int64_t{7}, int64_t{64}, total - 1, total, total + 1, 10 * total}) {
        for (const int64_t alignment : {1, 128}) {
          for (const LayoutKind kind : {LayoutKind::kBucketed, LayoutKind::kContiguous}) {
            cases.push_back({sizes, world_size, std::max<int64_t>(1, bucket), alignment, kind});
          }
        }
      }
    }
  }
  return cases;
}

TEST(Layout, EveryElementHasOneOwner) {
  for (const Case& c : awkward_cases()) {
    const Layout layout = c.layout();
    SCOPED_TRACE(layout.to_string());
    // Buckets tile the flat buffer; slices tile their bucket; partitions are tiled by their slices.
    int64_t flat = 0;
    std::vector<int64_t> partition(c.world_size);
    size_t placed = 0;
    for (const Bucket& bucket : layout.buckets()) {
      ASSERT_EQ(bucket.offset, flat);
      ASSERT_FALSE(bucket.parameters.empty());
      int64_t inside = 0;
      for (const Slice& slice : bucket.slices.all()) {
        ASSERT_EQ(slice.bucket_offset, inside);
        ASSERT_EQ(slice.partition_offset, partition[slice.owner]);
        ASSERT_EQ(slice.numel % c.alignment, 0);
        inside += slice.numel;
        partition[slice.owner] += slice.numel;
      }
      ASSERT_EQ(inside, bucket.numel);
      flat += bucket.numel;
      placed += bucket.parameters.size();
    }
    ASSERT_EQ(flat, layout.flat_numel());
    ASSERT_EQ(placed, c.sizes.size());
    for (const int64_t numel : partition) {
      ASSERT_EQ(numel, layout.partition_numel());  // so owned elements differ by padding only
    }
    // Padding is bounded: each parameter to the alignment, and each bucket, or in the contiguous
    // layout the flat buffer, to world_size × alignment.
    const bool bucketed = c.kind == LayoutKind::kBucketed;
    ASSERT_LE(layout.padding(), static_cast<int64_t>(c.sizes.size()) * (c.alignment - 1) +
                                    static_cast<int64_t>(bucketed ? layout.buckets().size() : 1) *
                                        (c.world_size * c.alignment - 1));
    // The ranks' segments cover every parameter exactly once and agree with the ranges.
    std::vector<int64_t> covered(c.sizes.size());
    for (int rank = 0; rank < c.world_size; ++rank) {
      for (const Segment& segment : layout.segments(rank)) {
        ASSERT_EQ(layout.parameter_at(segment.flat_offset), segment.parameter);
        const ParameterRange& range = layout.ranges()[segment.parameter];
        ASSERT_EQ((segment.flat_offset - range.offset) % c.alignment, 0);  // no slice cuts a block
        ASSERT_LE(segment.flat_offset + segment.numel, range.offset + range.numel);
        ASSERT_LE(segment.partition_offset + segment.numel, layout.partition_numel());
        covered[segment.parameter] += segment.numel;
      }
    }
    ASSERT_EQ(covered, c.sizes);
    for (const ParameterRange& range : layout.ranges()) {
      ASSERT_EQ(range.offset % c.alignment, 0);
    }
  }
}

/// Slices are arithmetic: a layout of 100,000 ranks and 10^12 elements is made at once.
TEST(Layout, OfManyRanksIsCheap) {
  constexpr int kRanks = 100'000;
  for (const LayoutKind kind : {LayoutKind::kBucketed, LayoutKind::kContiguous}) {
    const Layout layout(parameters_of(std::vector<int64_t>(1000, 1'000'000'007)),
                        {.kind = kind, .world_size = kRanks, .bucket_size = 500'000'000});
    ASSERT_EQ(layout.buckets().size(), 1000U);
    int64_t owned = 0;
    for (const int rank : {0, 1, 77'777, kRanks - 1}) {
      int64_t partition = 0;
      for (const Bucket& bucket : layout.buckets()) {
        const std::optional<Slice> slice = bucket.slices.of(rank);
        if (slice.has_value()) {
          ASSERT_EQ(slice->owner, rank);
          ASSERT_EQ(slice->partition_offset, partition);
          partition += slice->numel;
        }
      }
      ASSERT_EQ(partition, layout.partition_numel());
      for (const Segment& segment : layout.segments(rank)) {
        owned += segment.numel;
      }
    }
    EXPECT_LE(owned, 4 * layout.partition_numel());
    EXPECT_GE(owned, 4 * layout.partition_numel() - layout.padding());
    EXPECT_LT(layout.to_string().size(), 200'000U);
  }
}

TEST(Layout, ContiguousPartitionsAreEqualPartsOfTheFlatBuffer) {
  // Flat buffer, from the back: p2 [0, 5), p1 [5, 8), p0 [8, 18); 18 elements over 3 ranks.
  const Layout layout(
      parameters_of({10, 3, 5}),
      {.kind = LayoutKind::kContiguous, .world_size = 3, .bucket_size = 8, .alignment = 1});
  ASSERT_EQ(layout.buckets().size(), 2U);
  ASSERT_EQ(layout.flat_numel(), 18);
  // The first bucket is cut at 6, where rank 0's partition ends; the second at 12.
  const auto expect_slices = [](const Bucket& bucket, const std::vector<Slice>& expected) {
    ASSERT_EQ(bucket.slices.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(bucket.slices[i].owner, expected[i].owner);
      EXPECT_EQ(bucket.slices[i].bucket_offset, expected[i].bucket_offset);
      EXPECT_EQ(bucket.slices[i].partition_offset, expected[i].partition_offset);
      EXPECT_EQ(bucket.slices[i].numel, expected[i].numel);
    }
  };
  expect_slices(layout.buckets()[0], {{0, 0, 0, 6}, {1, 6, 0, 2}});
  expect_slices(layout.buckets()[1], {{1, 0, 2, 4}, {2, 4, 0, 6}});
  // p0 spans two partitions.
  ASSERT_EQ(layout.segments(1).size(), 2U);
  EXPECT_EQ(layout.segments(1)[1].parameter, 0);
  EXPECT_EQ(layout.segments(1)[1].numel, 4);
}

/// A parameter is listed by the gather that completes it: no later one brings an element of it, and
/// all together bring every element once.
TEST(Layout, GathersBringEveryElementOnceAndTellWhenAParameterIsComplete) {
  for (const Case& c : awkward_cases()) {
    const Layout layout = c.layout();
    if (layout.flat_numel() > 100'000) {
      continue;
    }
    for (const int64_t gather_size : {int64_t{0}, int64_t{1}, int64_t{100}}) {
      std::vector<int> gathered(layout.flat_numel());
      std::vector<int> listed(c.sizes.size());
      for (const Gather& gather : layout.gathers(gather_size)) {
        const int64_t slice = gather.numel / c.world_size;
        for (int rank = 0; rank < c.world_size; ++rank) {
          for (int64_t i = 0; i < gather.part_numel; ++i) {
            ++gathered[gather.offset + rank * slice + gather.part_begin + i];
          }
        }
        for (const int parameter : gather.parameters) {
          ++listed[parameter];
          const ParameterRange& range = layout.ranges()[parameter];
          for (int64_t i = range.offset; i < range.offset + range.numel; ++i) {
            ASSERT_EQ(gathered[i], 1) << "parameter " << parameter << "\n" << layout.to_string();
          }
        }
      }
      ASSERT_TRUE(std::ranges::all_of(gathered, [](int times) { return times == 1; }));
      if (layout.flat_numel() > 0) {
        ASSERT_TRUE(std::ranges::all_of(listed, [](int times) { return times == 1; }));
      }
    }
  }
}

TEST(Layout, BucketsKeepTheirLimitUnlessOneParameterPassesIt) {
  for (const Case& c : awkward_cases()) {
    const Layout layout = c.layout();
    for (const Bucket& bucket : layout.buckets()) {
      int64_t filled = 0;
      for (const int parameter : bucket.parameters) {
        filled += c.sizes[parameter];
      }
      if (bucket.parameters.size() > 1) {
        ASSERT_LE(filled, c.bucket_size);
      }
    }
  }
}

}  // namespace
}  // namespace zerolab::zero

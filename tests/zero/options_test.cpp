#include "zero/options.h"

#include <gtest/gtest.h>

#include <concepts>

namespace zerolab::zero {
namespace {

void change(std::optional<DType>& field) { field = DType::kBFloat16; }
void change(LayoutKind& field) { field = LayoutKind::kContiguous; }
void change(bool& field) { field = !field; }
template <typename Number>
void change(Number& field) {
  field += 1;
}

/// Changes each field of `Options` alone and expects another hash.
template <typename Options>
void expect_hash_of_all_fields() {
  Options options;
  const uint64_t hash = options.hash();
  EXPECT_EQ(Options().hash(), hash);
  std::apply(
      [&](auto&... fields) {
        int index = 0;
        const auto expect_another_hash = [&](auto& field) {
          const auto before = field;
          change(field);
          EXPECT_NE(options.hash(), hash) << "field " << index;
          field = before;
          EXPECT_EQ(options.hash(), hash) << "field " << index;
          ++index;
        };
        (expect_another_hash(fields), ...);
      },
      Options::fields_of(options));
}

TEST(EngineOptions, EveryFieldChangesTheHash) { expect_hash_of_all_fields<EngineOptions>(); }

TEST(DebugOptions, EveryFieldChangesTheHash) { expect_hash_of_all_fields<DebugOptions>(); }

/// Neighbours do not run into each other.
TEST(EngineOptions, HashTellsFieldsApart) {
  EXPECT_NE((EngineOptions{.reduce_bucket_size = 1, .allgather_bucket_size = 23}.hash()),
            (EngineOptions{.reduce_bucket_size = 12, .allgather_bucket_size = 3}.hash()));
  EXPECT_NE((EngineOptions{.communication_dtype = DType::kFloat32}.hash()), EngineOptions{}.hash());
}

}  // namespace
}  // namespace zerolab::zero

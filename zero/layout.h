#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

namespace zerolab::zero {

/// A parameter as the layout sees it.
struct LayoutParameter {
  std::string name;
  int64_t numel = 0;
  /// Its gradient is complete long after its first contribution (a tied embedding): it gets a
  /// bucket of its own.
  bool own_bucket = false;
  /// The module that it belongs to: neighbours with the same one stay in one bucket. Empty: alone.
  std::string module = {};
};

/// How the flat buffer is divided among the ranks.
enum class LayoutKind : uint8_t {
  kBucketed,    ///< rank r owns the r-th of every bucket's equal slices: one collective a bucket
  kContiguous,  ///< rank r owns the r-th of the flat buffer's equal parts, as in DeepSpeed
};

struct LayoutOptions {
  LayoutKind kind = LayoutKind::kBucketed;
  int world_size = 1;
  int64_t bucket_size = 0;  ///< elements; see `auto_bucket_size`
  int64_t alignment = 128;  ///< elements, the same for every dtype
};

/// min(5e8, max(2^16, num_params / 16)) elements: a small model still has several buckets, so that
/// communication can overlap.
int64_t auto_bucket_size(int64_t num_params);

/// A part of a bucket that one rank owns: a shard.
struct Slice {
  int owner = 0;
  int64_t bucket_offset = 0;     ///< from the bucket's begin
  int64_t partition_offset = 0;  ///< in the owner's partition
  int64_t numel = 0;
};

/// The slices of a bucket, by owner. Computed, not stored: a layout of 100,000 ranks costs no more
/// than that of one. The bucket [offset, offset + numel) lies within a range of the flat buffer
/// that begins at `range_begin` and is cut into one slice of `slice_numel` elements a rank, which
/// lies at `partition_offset` of its owner's partition.
struct Slices {
  int64_t offset = 0;
  int64_t numel = 0;
  int64_t range_begin = 0;
  int64_t slice_numel = 0;
  int64_t partition_offset = 0;

  int size() const;
  Slice operator[](int index) const;
  /// The slice that `rank` owns; none in buckets of the contiguous layout that it has no part in.
  std::optional<Slice> of(int rank) const;
  auto all() const {
    return std::views::iota(0, size()) |
           std::views::transform([this](int index) { return (*this)[index]; });
  }

 private:
  int first_owner() const;
};

/// A run of the flat buffer whose gradients are reduced together.
struct Bucket {
  int64_t offset = 0;  ///< in the flat buffer
  int64_t numel = 0;   ///< padding included
  std::vector<int> parameters;
  Slices slices;  ///< in the contiguous layout of some ranks only
  /// The parameters' names, for messages.
  std::shared_ptr<const std::string> description;
};

/// Where a parameter lies.
struct ParameterRange {
  int bucket = 0;
  int64_t offset = 0;  ///< in the flat buffer; a multiple of the alignment
  int64_t numel = 0;
};

/// A run of one parameter's elements within one slice: what an optimizer or a norm works on. Holds
/// no padding.
struct Segment {
  int parameter = 0;
  int64_t flat_offset = 0;
  int64_t partition_offset = 0;
  int64_t numel = 0;
};

/// One all-gather: of the run [offset, offset + numel) of the flat buffer, which has one slice a
/// rank, elements [part_begin, part_begin + part_numel) of each slice.
struct Gather {
  int bucket = -1;  ///< -1: of the whole flat buffer
  int64_t offset = 0;
  int64_t numel = 0;
  int64_t part_begin = 0;
  int64_t part_numel = 0;
  std::vector<int> parameters;  ///< complete once this one, and those before it, are done
};

/// The whole map of ZeRO, as plain data: parameter → flat buffer → buckets → slices → partitions.
/// Every stage uses the same one; a stage only chooses which buffers have the flat buffer's size
/// and which the partition's.
///
/// Buckets hold parameters in reverse order of registration, the order in which a backward
/// completes gradients. One op makes the gradients of a module's parameters (weight and bias), so
/// these stay together: in two buckets they would keep both open. A bucket closes when the next
/// module would pass `bucket_size`; a larger one has a bucket of its own. Every parameter starts at
/// a multiple of the alignment. Bucketed: every bucket is padded to a multiple of world_size ×
/// alignment. Contiguous: the flat buffer is; a bucket's slices are what partitions cut it into.
class Layout {
 public:
  /// Throws `Error` for a non-positive world size, bucket size or alignment.
  Layout(std::vector<LayoutParameter> parameters, const LayoutOptions& options);

  const LayoutOptions& options() const { return options_; }
  const std::vector<LayoutParameter>& parameters() const { return parameters_; }
  const std::vector<ParameterRange>& ranges() const { return ranges_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }

  int64_t num_params() const { return num_params_; }             ///< Ψ
  int64_t flat_numel() const { return flat_numel_; }             ///< Ψ + padding
  int64_t padding() const { return flat_numel_ - num_params_; }  ///< elements
  int64_t partition_numel() const { return flat_numel_ / options_.world_size; }

  /// What `rank` owns, in flat order; without a rank everything, with partition_offset =
  /// flat_offset: what a rank owns where nothing is partitioned.
  std::vector<Segment> segments(std::optional<int> rank = std::nullopt) const;
  /// All that must be gathered after an update, in an order that begins with what the next forward
  /// reads first: a bucket at a time, or (contiguous layout) as many elements of each partition as
  /// make `gather_size` over all ranks (0: 5e8, DeepSpeed's default).
  std::vector<Gather> gathers(int64_t gather_size) const;
  /// Index of the parameter that holds element `flat_offset`; throws for padding.
  int parameter_at(int64_t flat_offset) const;

  /// Equal hashes: equal maps. Compared across ranks before the first step.
  uint64_t hash() const;
  /// The map as a table, one line a bucket.
  std::string to_string() const;

 private:
  bool is_bucket_begin(int index, int64_t filled) const;
  void close_bucket(Bucket& bucket);
  Slices slices_of(const Bucket& bucket) const;

  LayoutOptions options_;
  std::vector<LayoutParameter> parameters_;
  std::vector<ParameterRange> ranges_;
  std::vector<Bucket> buckets_;
  int64_t num_params_ = 0;
  int64_t flat_numel_ = 0;
};

}  // namespace zerolab::zero

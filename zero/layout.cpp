#include "zero/layout.h"

#include <algorithm>

#include "framework/core/error.h"

namespace zerolab::zero {
namespace {

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

int64_t auto_bucket_size(int64_t num_params) {
  return std::min<int64_t>(500'000'000, std::max<int64_t>(1 << 16, num_params / 16));
}

Layout::Layout(std::vector<LayoutParameter> parameters, const LayoutOptions& options)
    : options_(options), parameters_(std::move(parameters)), ranges_(parameters_.size()) {
  require(options.world_size > 0 && options.bucket_size > 0 && options.alignment > 0, "layout",
          "world size, bucket size and alignment must be positive; got {}, {}, {}",
          options.world_size, options.bucket_size, options.alignment);
  Bucket bucket;
  int64_t filled = 0;  // elements of the open bucket, padding aside: what bucket_size limits
  for (int index = static_cast<int>(parameters_.size()) - 1; index >= 0; --index) {
    const LayoutParameter& parameter = parameters_[index];
    num_params_ += parameter.numel;
    if (!bucket.parameters.empty() &&
        (parameter.own_bucket || filled + parameter.numel > options.bucket_size)) {
      close_bucket(bucket);
      filled = 0;
    }
    ranges_[index] = {.bucket = static_cast<int>(buckets_.size()),
                      .offset = bucket.offset + bucket.numel,
                      .numel = parameter.numel};
    bucket.parameters.push_back(index);
    bucket.numel += round_up(parameter.numel, options.alignment);
    filled += parameter.numel;
    if (parameter.own_bucket) {
      close_bucket(bucket);
      filled = 0;
    }
  }
  if (!bucket.parameters.empty()) {
    close_bucket(bucket);
  }
}

void Layout::close_bucket(Bucket& bucket) {
  const int world_size = options_.world_size;
  bucket.numel = round_up(bucket.numel, world_size * options_.alignment);
  const int64_t slice = bucket.numel / world_size;
  for (int owner = 0; owner < world_size; ++owner) {
    bucket.slices.push_back({.owner = owner,
                             .bucket_offset = owner * slice,
                             .partition_offset = flat_numel_ / world_size,
                             .numel = slice});
  }
  flat_numel_ += bucket.numel;
  buckets_.push_back(std::move(bucket));
  bucket = Bucket{.offset = flat_numel_, .numel = 0, .parameters = {}, .slices = {}};
}

std::vector<Segment> Layout::segments(int rank) const {
  std::vector<Segment> segments;
  for (const Bucket& bucket : buckets_) {
    for (const Slice& slice : bucket.slices) {
      if (slice.owner != rank) {
        continue;
      }
      const int64_t slice_begin = bucket.offset + slice.bucket_offset;
      for (const int parameter : bucket.parameters) {
        const ParameterRange& range = ranges_[parameter];
        const int64_t begin = std::max(range.offset, slice_begin);
        const int64_t end = std::min(range.offset + range.numel, slice_begin + slice.numel);
        if (begin < end) {
          segments.push_back({.parameter = parameter,
                              .flat_offset = begin,
                              .partition_offset = slice.partition_offset + begin - slice_begin,
                              .numel = end - begin});
        }
      }
    }
  }
  return segments;
}

std::vector<Segment> Layout::all_segments() const {
  std::vector<Segment> segments;
  for (const Bucket& bucket : buckets_) {
    for (const int parameter : bucket.parameters) {
      const ParameterRange& range = ranges_[parameter];
      segments.push_back({.parameter = parameter,
                          .flat_offset = range.offset,
                          .partition_offset = range.offset,
                          .numel = range.numel});
    }
  }
  return segments;
}

int Layout::parameter_at(int64_t flat_offset) const {
  for (size_t index = 0; index < ranges_.size(); ++index) {
    const ParameterRange& range = ranges_[index];
    if (flat_offset >= range.offset && flat_offset < range.offset + range.numel) {
      return static_cast<int>(index);
    }
  }
  fail("layout", "element {} belongs to no parameter", flat_offset);
}

uint64_t Layout::hash() const {
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a over the table, which shows all there is
  for (const char letter : to_string()) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
  }
  return hash;
}

std::string Layout::to_string() const {
  std::string text =
      fmt::format("{} parameters, {} elements + {} padding in {} buckets over {} ranks\n",
                  parameters_.size(), num_params_, padding(), buckets_.size(), options_.world_size);
  for (size_t index = 0; index < buckets_.size(); ++index) {
    const Bucket& bucket = buckets_[index];
    text += fmt::format("bucket {:>3} [{}, {}) {} a rank:", index, bucket.offset,
                        bucket.offset + bucket.numel, bucket.numel / options_.world_size);
    for (const int parameter : bucket.parameters) {
      text += fmt::format(" {}@{}+{}", parameters_[parameter].name, ranges_[parameter].offset,
                          ranges_[parameter].numel);
    }
    text += "\n";
  }
  return text;
}

}  // namespace zerolab::zero

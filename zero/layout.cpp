#include "zero/layout.h"

#include <algorithm>

#include "framework/core/error.h"
#include "framework/core/hash.h"

namespace zerolab::zero {
namespace {

constexpr int64_t kLargestBucket = 500'000'000;  // elements; DeepSpeed's default of both sizes

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

bool share_module(const LayoutParameter& a, const LayoutParameter& b) {
  return !a.module.empty() && a.module == b.module;
}

}  // namespace

int Slices::first_owner() const {
  return numel == 0 ? 0 : static_cast<int>((offset - range_begin) / slice_numel);
}

int Slices::size() const {
  return numel == 0 ? 0
                    : static_cast<int>((offset + numel - 1 - range_begin) / slice_numel) -
                          first_owner() + 1;
}

Slice Slices::operator[](int index) const {
  const int owner = first_owner() + index;
  const int64_t owned = range_begin + owner * slice_numel;
  const int64_t begin = std::max(owned, offset);
  const int64_t end = std::min(owned + slice_numel, offset + numel);
  return {.owner = owner,
          .bucket_offset = begin - offset,
          .partition_offset = partition_offset + begin - owned,
          .numel = end - begin};
}

std::optional<Slice> Slices::of(int rank) const {
  const int index = rank - first_owner();
  return index >= 0 && index < size() ? std::optional((*this)[index]) : std::nullopt;
}

int64_t auto_bucket_size(int64_t num_params) {
  return std::min<int64_t>(kLargestBucket, std::max<int64_t>(1 << 16, num_params / 16));
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
    if (!bucket.parameters.empty() && is_bucket_begin(index, filled)) {
      close_bucket(bucket);
      filled = 0;
    }
    ranges_[index] = {.bucket = static_cast<int>(buckets_.size()),
                      .offset = bucket.offset + bucket.numel,
                      .numel = parameter.numel};
    bucket.parameters.push_back(index);
    bucket.numel += round_up(parameter.numel, options.alignment);
    filled += parameter.numel;
  }
  if (!bucket.parameters.empty()) {
    close_bucket(bucket);
  }
  if (options.kind == LayoutKind::kContiguous && !buckets_.empty()) {
    const int64_t padded = round_up(flat_numel_, options.world_size * options.alignment);
    buckets_.back().numel += padded - flat_numel_;
    flat_numel_ = padded;
  }
  for (Bucket& closed : buckets_) {
    closed.slices = slices_of(closed);
  }
}

bool Layout::is_bucket_begin(int index, int64_t filled) const {
  const LayoutParameter& previous = parameters_[index + 1];
  if (parameters_[index].own_bucket || previous.own_bucket) {
    return true;
  }
  if (share_module(parameters_[index], previous)) {
    return false;
  }
  filled += parameters_[index].numel;
  for (int i = index - 1; i >= 0 && share_module(parameters_[i], parameters_[index]); --i) {
    filled += parameters_[i].numel;
  }
  return filled > options_.bucket_size;
}

void Layout::close_bucket(Bucket& bucket) {
  if (options_.kind == LayoutKind::kBucketed) {
    bucket.numel = round_up(bucket.numel, options_.world_size * options_.alignment);
  }
  const std::string& first = parameters_[bucket.parameters.front()].name;
  const std::string& last = parameters_[bucket.parameters.back()].name;
  bucket.description =
      std::make_shared<const std::string>(first == last ? first : first + " … " + last);
  flat_numel_ += bucket.numel;
  buckets_.push_back(std::move(bucket));
  bucket =
      Bucket{.offset = flat_numel_, .numel = 0, .parameters = {}, .slices = {}, .description = {}};
}

Slices Layout::slices_of(const Bucket& bucket) const {
  // The range that is cut into one equal slice a rank: the bucket, or the flat buffer.
  const bool bucketed = options_.kind == LayoutKind::kBucketed;
  const int64_t begin = bucketed ? bucket.offset : 0;
  const int64_t slice = (bucketed ? bucket.numel : flat_numel_) / options_.world_size;
  return {bucket.offset, bucket.numel, begin, slice, begin / options_.world_size};
}

std::vector<Segment> Layout::segments(std::optional<int> rank) const {
  std::vector<Segment> segments;
  for (const Bucket& bucket : buckets_) {
    const std::optional<Slice> slice =
        rank.has_value() ? bucket.slices.of(*rank)
                         : Slice{.partition_offset = bucket.offset, .numel = bucket.numel};
    if (!slice.has_value()) {
      continue;
    }
    const int64_t slice_begin = bucket.offset + slice->bucket_offset;
    for (const int parameter : bucket.parameters) {
      const ParameterRange& range = ranges_[parameter];
      const int64_t begin = std::max(range.offset, slice_begin);
      const int64_t end = std::min(range.offset + range.numel, slice_begin + slice->numel);
      if (begin < end) {
        segments.push_back({.parameter = parameter,
                            .flat_offset = begin,
                            .partition_offset = slice->partition_offset + begin - slice_begin,
                            .numel = end - begin});
      }
    }
  }
  return segments;
}

std::vector<Gather> Layout::gathers(int64_t gather_size) const {
  std::vector<Gather> gathers;
  if (options_.kind == LayoutKind::kBucketed) {
    for (int index = static_cast<int>(buckets_.size()) - 1; index >= 0; --index) {
      const Bucket& bucket = buckets_[index];
      gathers.push_back({.bucket = index,
                         .offset = bucket.offset,
                         .numel = bucket.numel,
                         .part_begin = 0,
                         .part_numel = bucket.numel / options_.world_size,
                         .parameters = bucket.parameters});
    }
    return gathers;
  }
  const int64_t partition = partition_numel();
  gather_size = gather_size == 0 ? kLargestBucket : gather_size;
  const int64_t step = std::max<int64_t>(1, std::min(gather_size / options_.world_size, partition));
  const int64_t count = (partition + step - 1) / step;
  for (int64_t index = count - 1; index >= 0; --index) {
    gathers.push_back({.bucket = -1,
                       .offset = 0,
                       .numel = flat_numel_,
                       .part_begin = index * step,
                       .part_numel = std::min(step, partition - index * step),
                       .parameters = {}});
  }
  for (size_t parameter = 0; parameter < ranges_.size() && count > 0; ++parameter) {
    // The last to come is the gather with the smallest offset that the parameter has in a
    // partition: the last of all where it goes on in the next partition.
    const int64_t begin = ranges_[parameter].offset % partition;
    const int64_t first = begin + ranges_[parameter].numel > partition ? 0 : begin / step;
    gathers[count - 1 - first].parameters.push_back(static_cast<int>(parameter));
  }
  return gathers;
}

int Layout::parameter_at(int64_t flat_offset) const {
  const auto found = std::ranges::find_if(ranges_, [&](const ParameterRange& range) {
    return flat_offset >= range.offset && flat_offset < range.offset + range.numel;
  });
  require(found != ranges_.end(), "layout", "element {} belongs to no parameter", flat_offset);
  return static_cast<int>(found - ranges_.begin());
}

uint64_t Layout::hash() const { return hash_of(to_string()); }  // the table shows all there is

std::string Layout::to_string() const {
  std::string text = fmt::format(
      "{} layout: {} parameters, {} elements + {} padding in {} buckets over {} ranks\n",
      options_.kind == LayoutKind::kBucketed ? "bucketed" : "contiguous", parameters_.size(),
      num_params_, padding(), buckets_.size(), options_.world_size);
  for (size_t index = 0; index < buckets_.size(); ++index) {
    const Bucket& bucket = buckets_[index];
    text +=
        fmt::format("bucket {:>3} [{}, {})", index, bucket.offset, bucket.offset + bucket.numel);
    if (const int size = bucket.slices.size(); size > 0) {
      text +=
          fmt::format(" of ranks {} to {}", bucket.slices[0].owner, bucket.slices[size - 1].owner);
    }
    text += ":";
    for (const int parameter : bucket.parameters) {
      text += fmt::format(" {}@{}+{}", parameters_[parameter].name, ranges_[parameter].offset,
                          ranges_[parameter].numel);
    }
    text += "\n";
  }
  return text;
}

}  // namespace zerolab::zero

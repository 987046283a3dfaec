#include "data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/permutation.h"
#include "framework/core/error.h"

namespace zerolab::data {

namespace {

void require_at_least(const char* name, int64_t value, int64_t least) {
  if (value < least) {
    throw ConfigError(
        "data", fmt::format("{} is too small; got {}, expected at least {}", name, value, least));
  }
}

void check(const BatchShape& shape, const DataParallel& group) {
  require_at_least("micro_batch_size", shape.batch_size, 1);
  require_at_least("the number of ranks", group.world_size, 1);
  if (group.rank < 0 || group.rank >= group.world_size) {
    throw ConfigError("data", fmt::format("a rank outside its group; got rank {}, expected 0 to {}",
                                          group.rank, group.world_size - 1));
  }
}

void check_spans(const BatchShape& shape, std::span<int32_t> inputs, std::span<int32_t> targets) {
  const auto numel = static_cast<size_t>(shape.numel());
  require(inputs.size() == numel && targets.size() == numel, "data",
          "a batch does not fit its buffers; got {} inputs and {} targets, expected {} of each",
          inputs.size(), targets.size(), numel);
}

std::span<int32_t> row_of(std::span<int32_t> batch, int64_t row, int64_t block_size) {
  return batch.subspan(static_cast<size_t>(row * block_size), static_cast<size_t>(block_size));
}

}  // namespace

Order parse_order(std::string_view name) {
  if (name == "sequential") {
    return Order::kSequential;
  }
  if (name == "shuffled") {
    return Order::kShuffled;
  }
  throw ConfigError(
      "data", fmt::format("unknown order; got '{}', expected 'shuffled' or 'sequential'", name));
}

Loader::Loader(TokenView tokens, const Options& options)
    : options_(options), windows_(std::move(tokens), options.shape.block_size, "training") {
  check(options_.shape, options_.group);
  require_at_least("gradient_accumulation_steps", options_.gradient_accumulation_steps, 1);
}

int64_t Loader::load(int64_t step, int64_t micro_batch, std::span<int32_t> inputs,
                     std::span<int32_t> targets) const {
  const auto& [shape, group, accumulation_steps, order, seed] = options_;
  require(step >= 0 && micro_batch >= 0 && micro_batch < accumulation_steps, "data",
          "no such micro-batch; got step {} and micro-batch {}, expected step >= 0 and 0 to {}",
          step, micro_batch, accumulation_steps - 1);
  check_spans(shape, inputs, targets);
  const int64_t micro_batches_before = step * accumulation_steps + micro_batch;
  const int64_t first_sample =
      (micro_batches_before * group.world_size + group.rank) * shape.batch_size;
  for (int64_t row = 0; row < shape.batch_size; ++row) {
    windows_.read(window_of(first_sample + row), row_of(inputs, row, shape.block_size),
                  row_of(targets, row, shape.block_size));
  }
  return first_sample;
}

int64_t Loader::window_of(int64_t sample) const {
  const int64_t epoch = sample / num_windows();
  const int64_t index = sample % num_windows();
  if (options_.order == Order::kSequential) {
    return index;
  }
  return Permutation(num_windows(), options_.seed, static_cast<uint64_t>(epoch))(index);
}

EvaluationLoader::EvaluationLoader(TokenView tokens, BatchShape shape, DataParallel group,
                                   int64_t max_batches)
    : shape_(shape), group_(group), windows_(std::move(tokens), shape.block_size, "validation") {
  check(shape_, group_);
  require_at_least("eval_batches", max_batches, 0);
  const int64_t rows_a_batch = group_.world_size * shape_.batch_size;
  num_batches_ = (windows_.size() + rows_a_batch - 1) / rows_a_batch;
  if (max_batches > 0) {
    num_batches_ = std::min(num_batches_, max_batches);
  }
}

int64_t EvaluationLoader::num_rows() const {
  return std::min(windows_.size(), num_batches_ * group_.world_size * shape_.batch_size);
}

int64_t EvaluationLoader::load(int64_t batch, std::span<int32_t> inputs,
                               std::span<int32_t> targets) const {
  require(batch >= 0 && batch < num_batches_, "data",
          "no such evaluation batch; got {}, expected 0 to {}", batch, num_batches_ - 1);
  check_spans(shape_, inputs, targets);
  const int64_t first_window = (batch * group_.world_size + group_.rank) * shape_.batch_size;
  const int64_t valid_rows =
      std::clamp<int64_t>(windows_.size() - first_window, 0, shape_.batch_size);
  for (int64_t row = 0; row < valid_rows; ++row) {
    windows_.read(first_window + row, row_of(inputs, row, shape_.block_size),
                  row_of(targets, row, shape_.block_size));
  }
  const auto num_valid = static_cast<size_t>(valid_rows * shape_.block_size);
  std::ranges::fill(inputs.subspan(num_valid), 0);
  std::ranges::fill(targets.subspan(num_valid), 0);
  return valid_rows;
}

}  // namespace zerolab::data

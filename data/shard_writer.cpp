#include "data/shard_writer.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "data/shard_header.h"
#include "framework/core/error.h"

namespace zerolab::data {

namespace {

template <typename T>
std::string_view bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

ShardWriter::ShardWriter(std::filesystem::path folder, int64_t tokens_per_shard, int64_t next)
    : folder_(std::move(folder)), tokens_per_shard_(tokens_per_shard), next_(next) {
  require(tokens_per_shard >= 1 && tokens_per_shard <= std::numeric_limits<int32_t>::max(), "data",
          "tokens of a shard; got {}, expected 1 to {}", tokens_per_shard,
          std::numeric_limits<int32_t>::max());
}

size_t ShardWriter::append(std::span<const int32_t> tokens) {
  if (!file_.has_value()) {
    const ShardHeader header;  // of no tokens, until they are counted
    file_.emplace((folder_ / fmt::format("shard_{:06}.bin", next_)).string());
    file_->write(bytes_of(std::span(&header, 1)));
  }
  const auto room = static_cast<size_t>(tokens_per_shard_ - num_tokens_);
  const std::span<const int32_t> taken = tokens.first(std::min(room, tokens.size()));
  const std::vector<uint16_t> narrow(taken.begin(), taken.end());
  file_->write(bytes_of(std::span(narrow)));
  num_tokens_ += static_cast<int64_t>(taken.size());
  return taken.size();
}

void ShardWriter::finish_shard() {
  ShardHeader header;
  header.num_tokens = static_cast<int32_t>(num_tokens_);
  file_->rewrite_start(bytes_of(std::span<const ShardHeader>(&header, 1)));
  file_->commit();
  file_.reset();
  num_tokens_ = 0;
  ++next_;
}

}  // namespace zerolab::data

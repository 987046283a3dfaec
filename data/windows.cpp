#include "data/windows.h"

#include <fmt/format.h>

#include <utility>

#include "framework/core/error.h"

namespace zerolab::data {

Windows::Windows(TokenView tokens, int64_t block_size, const char* what)
    : tokens_(std::move(tokens)), block_size_(block_size) {
  if (block_size < 1 || tokens_.size() <= block_size) {
    throw ConfigError(
        "data", fmt::format("block_size does not fit the {} tokens; got block_size {} and {} "
                            "tokens, expected at least 1 and one token more than block_size; use a "
                            "larger corpus, a smaller block_size or another val_fraction",
                            what, block_size, tokens_.size()));
  }
  num_windows_ = (tokens_.size() - 1) / block_size;
}

void Windows::read(int64_t index, std::span<int32_t> inputs, std::span<int32_t> targets) const {
  tokens_.read(index * block_size_, inputs);
  tokens_.read(index * block_size_ + 1, targets);
}

}  // namespace zerolab::data

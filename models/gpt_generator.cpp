#include "models/gpt_generator.h"

#include <algorithm>

#include "framework/core/error.h"
#include "framework/tensor/backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab {

GptGenerator::GptGenerator(const Gpt& model, std::span<const int32_t> prompt, bool use_cache)
    : model_(model),
      use_cache_(use_cache),
      context_(model.parameters().front()->value().context()),
      cache_(context_, model.config(), model.parameters().front()->value().dtype()) {
  require(!prompt.empty(), "gpt", "nothing to continue; got no token, expected at least one");
  const size_t block_size = model.config().block_size;
  prompt = prompt.last(std::min(prompt.size(), block_size));
  window_.assign(prompt.begin(), prompt.end());
}

std::vector<float> GptGenerator::logits() {
  if (!use_cache_) {
    cache_.clear();
  }
  const auto added = std::span<const int32_t>(window_).subspan(cache_.length());
  const Tensor tokens =
      Tensor::from_host(context_, Shape{1, static_cast<int64_t>(added.size())}, added);
  const Tensor logits = model_.next_logits(tokens, cache_);
  const Tensor wide = Tensor::empty(context_, logits.shape(), DType::kFloat32);
  context_.backend().copy(context_.compute(), logits, wide);
  return wide.to_host<float>();
}

void GptGenerator::append(int32_t token) {
  const int64_t block_size = model_.config().block_size;
  if (std::ssize(window_) == block_size) {
    window_.erase(window_.begin(), window_.end() - block_size / 2);
    cache_.clear();
  }
  window_.push_back(token);
}

}  // namespace zerolab

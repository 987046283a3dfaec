#include "apps/train_gpt/inference/evaluate.h"

#include <algorithm>
#include <span>
#include <vector>

#include "framework/tensor/rank_context.h"

namespace zerolab::app {

double mean_loss(const Gpt& model, const data::TokenView& text, int32_t start, int64_t batch_size) {
  RankContext& context = model.parameters().front()->value().context();
  const NoGradScope no_grad(context);
  const int64_t block_size = model.config().block_size;
  std::vector<int32_t> tokens;
  double sum = 0.0;
  for (int64_t begin = 0; begin < text.size();) {
    const int64_t left = text.size() - begin;
    const int64_t rows = std::clamp<int64_t>(left / block_size, 1, batch_size);
    const int64_t count = std::min(left, rows * block_size);
    tokens.resize(count + 1);
    if (begin == 0) {
      tokens[0] = start;
      text.read(0, std::span(tokens).subspan(1));
    } else {
      text.read(begin - 1, tokens);
    }
    const Shape shape{rows, count / rows};
    const std::span<const int32_t> all(tokens);
    const Tensor loss = model.loss(Tensor::from_host(context, shape, all.first(count)),
                                   Tensor::from_host(context, shape, all.last(count)), {});
    sum += static_cast<double>(count) * loss.item();
    begin += count;
  }
  return sum / static_cast<double>(text.size());
}

}  // namespace zerolab::app

#include "models/gpt.h"

#include <cmath>
#include <numeric>
#include <span>

#include "framework/core/error.h"
#include "framework/ops/attention.h"
#include "framework/ops/cross_entropy.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/linear.h"
#include "models/gpt_cache.h"

namespace zerolab {
namespace {

constexpr double kStddev = 0.02;

/// Every residual branch adds variance: GPT-2 shrinks what ends one by the root of their number.
double projection_stddev(const GptConfig& config) {
  return kStddev / std::sqrt(2.0 * static_cast<double>(config.n_layer));
}

/// `op` numbers the dropouts of the model.
Tensor dropout(const Tensor& x, const GptConfig& config, const ForwardOptions& options,
               uint64_t op) {
  if (!options.training || config.dropout == 0.0) {
    return x;
  }
  return ops::dropout(x, {options.seed, op, options.first_sample, config.dropout});
}

}  // namespace

void GptConfig::check() const {
  const auto require_positive = [](std::string_view field, int64_t value) {
    require(value > 0, "gpt", "{} must be positive; got {}", field, value);
  };
  require_positive("n_layer", n_layer);
  require_positive("n_head", n_head);
  require_positive("n_embd", n_embd);
  require_positive("block_size", block_size);
  require_positive("vocab_size", vocab_size);
  require(n_embd % n_head == 0, "gpt", "n_embd must be a multiple of n_head; got {} and {}", n_embd,
          n_head);
  require(dropout >= 0.0 && dropout < 1.0, "gpt", "dropout must be within [0, 1); got {}", dropout);
}

GptBlock::GptBlock(const nn::Scope& scope, const GptConfig& config, int64_t layer)
    : Module(scope),
      config_(config),
      layer_(layer),
      ln_1_(scope.child("ln_1"), config.n_embd, config.bias),
      attention_(scope.child("attn.c_attn"), config.n_embd, 3 * config.n_embd, config.bias,
                 kStddev),
      attention_projection_(scope.child("attn.c_proj"), config.n_embd, config.n_embd, config.bias,
                            projection_stddev(config)),
      ln_2_(scope.child("ln_2"), config.n_embd, config.bias),
      mlp_(scope.child("mlp.c_fc"), config.n_embd, 4 * config.n_embd, config.bias, kStddev),
      mlp_projection_(scope.child("mlp.c_proj"), 4 * config.n_embd, config.n_embd, config.bias,
                      projection_stddev(config)) {
  add_module(ln_1_);
  add_module(attention_);
  add_module(attention_projection_);
  add_module(ln_2_);
  add_module(mlp_);
  add_module(mlp_projection_);
}

Tensor GptBlock::attend(const Tensor& x, const ForwardOptions& options) const {
  const ModuleScope running(x.context(), name(), "attn");
  const Tensor qkv = attention_.forward(x);
  const Tensor attended = options.cache != nullptr
                              ? options.cache->attend(layer_, qkv, config_.n_head)
                              : ops::causal_attention(qkv, config_.n_head);
  return dropout(attention_projection_.forward(attended), config_, options, 1 + 2 * layer_);
}

Tensor GptBlock::mix(const Tensor& x, const ForwardOptions& options) const {
  const ModuleScope running(x.context(), name(), "mlp");
  const Tensor mixed = mlp_projection_.forward(mlp_.forward_gelu(x));
  return dropout(mixed, config_, options, 2 + 2 * layer_);
}

ops::NormalizedSum GptBlock::forward(const ops::NormalizedSum& in, const nn::LayerNorm& next_norm,
                                     const ForwardOptions& options) const {
  const ModuleScope running(in.sum.context(), name());
  const auto middle = ln_2_.forward_sum(in.sum, attend(in.normalized, options));
  return next_norm.forward_sum(middle.sum, mix(middle.normalized, options));
}

Gpt::Gpt(const nn::Scope& scope, const GptConfig& config)
    : Module(scope),
      config_((config.check(), config)),
      wte_(scope.child("wte"), config.vocab_size, config.n_embd, kStddev, config.tie_weights),
      wpe_(scope.child("wpe"), config.block_size, config.n_embd, kStddev),
      ln_f_(scope.child("ln_f"), config.n_embd, config.bias) {
  add_module(wte_);
  add_module(wpe_);
  for (int64_t layer = 0; layer < config.n_layer; ++layer) {
    blocks_.push_back(
        std::make_unique<GptBlock>(scope.child(fmt::format("h.{}", layer)), config, layer));
    add_module(*blocks_.back());
  }
  add_module(ln_f_);
  head_ = config.tie_weights
              ? &wte_.weight()
              : &add_parameter(scope.child("lm_head"), "weight",
                               Shape{config.vocab_size, config.n_embd}, nn::Init::normal(kStddev));
}

Tensor Gpt::hidden(const Tensor& tokens, const ForwardOptions& options) const {
  require(tokens.defined() && tokens.shape().rank() == 2, "gpt", "tokens must be [B, T]; got {}",
          tokens.defined() ? tokens.shape().to_string() : "nothing");
  const int64_t length = tokens.shape()[1];
  const int64_t first = options.cache != nullptr ? options.cache->length() : 0;
  require(first + length <= config_.block_size, "gpt",
          "the sequence is too long; got {} tokens, expected at most block_size = {}",
          first + length, config_.block_size);

  RankContext& context = tokens.context();
  std::vector<int32_t> indices(length);
  std::iota(indices.begin(), indices.end(), static_cast<int32_t>(first));
  const Tensor positions =
      Tensor::from_host(context, Shape{length}, std::span<const int32_t>(indices));

  const auto norm_before = [&](size_t layer) -> const nn::LayerNorm& {
    return layer < blocks_.size() ? blocks_[layer]->first_norm() : ln_f_;
  };
  ops::NormalizedSum x;
  x.sum = dropout(ops::add(wte_.forward(tokens), wpe_.forward(positions)), config_, options, 0);
  x.normalized = norm_before(0).forward(x.sum);
  for (size_t layer = 0; layer < blocks_.size(); ++layer) {
    x = blocks_[layer]->forward(x, norm_before(layer + 1), options);
  }
  return x.normalized;
}

Tensor Gpt::logits(const Tensor& hidden) const {
  const ModuleScope running(hidden.context(), "lm_head");
  const CategoryScope category(hidden.context(), Category::kLogits);
  return ops::linear(hidden, head_->tensor(), Tensor(), WeightLayout::kOutIn);
}

Tensor Gpt::forward(const Tensor& tokens, const ForwardOptions& options) const {
  return logits(hidden(tokens, options));
}

Tensor Gpt::next_logits(const Tensor& tokens, GptCache& cache) const {
  const NoGradScope no_grad(tokens.context());
  const Tensor x = hidden(tokens, {.cache = &cache});
  cache.advance(tokens.shape()[1]);
  return logits(x.range(x.numel() - config_.n_embd, config_.n_embd).view({1, config_.n_embd}));
}

Tensor Gpt::loss(const Tensor& tokens, const Tensor& targets, const ForwardOptions& options) const {
  const Tensor logits = forward(tokens, options);
  const ModuleScope running(logits.context(), "loss");
  return ops::cross_entropy(logits, targets);
}

}  // namespace zerolab

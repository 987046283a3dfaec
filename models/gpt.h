#pragma once

#include <memory>
#include <vector>

#include "framework/nn/embedding.h"
#include "framework/nn/layer_norm.h"
#include "framework/nn/linear.h"

namespace zerolab {

struct GptConfig {
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_embd = 768;
  int64_t block_size = 1024;
  int64_t vocab_size = 50257;
  bool bias = true;         ///< in linear layers and layer norms
  double dropout = 0.0;     ///< after the embedding and on both residual branches
  bool tie_weights = true;  ///< the output layer is the token embedding

  /// Throws `Error` naming the first field that cannot be.
  void check() const;
};

class GptCache;

struct ForwardOptions {
  bool training = false;      ///< dropout only then
  uint64_t seed = 0;          ///< of dropout: differs from step to step
  int64_t first_sample = 0;   ///< global sample of the first row of tokens
  GptCache* cache = nullptr;  ///< of the tokens before these: by `next_logits`
};

/// One transformer layer: x + attention(norm(x)), then x + mlp(norm(x)). Each sum is followed by a
/// layer norm, which is computed with it: so a layer is given x with its norm, and returns its own
/// result with that of `next_norm`, the following layer's.
class GptBlock final : public nn::Module {
 public:
  GptBlock(const nn::Scope& scope, const GptConfig& config, int64_t layer);
  const nn::LayerNorm& first_norm() const { return ln_1_; }
  ops::NormalizedSum forward(const ops::NormalizedSum& in, const nn::LayerNorm& next_norm,
                             const ForwardOptions& options) const;

 private:
  /// The two branches; x is normalised.
  Tensor attend(const Tensor& x, const ForwardOptions& options) const;
  Tensor mix(const Tensor& x, const ForwardOptions& options) const;

  const GptConfig config_;
  const int64_t layer_;
  nn::LayerNorm ln_1_;
  nn::Linear attention_;
  nn::Linear attention_projection_;
  nn::LayerNorm ln_2_;
  nn::Linear mlp_;
  nn::Linear mlp_projection_;
};

/// GPT-2 (Radford et al. 2019): pre-norm, learned positions, a tied output layer by default.
/// Parameters have the names, shapes and order of Hugging Face's files.
class Gpt final : public nn::Module {
 public:
  Gpt(const nn::Scope& scope, const GptConfig& config);
  const GptConfig& config() const { return config_; }

  /// tokens [B, T] int32, all within the vocabulary, T at most `block_size`; logits [B, T, V].
  Tensor forward(const Tensor& tokens, const ForwardOptions& options) const;
  /// The mean cross-entropy over all B · T targets, a scalar. The logits live until its backward,
  /// which turns them into their gradient in place; without gradients they are freed at once.
  Tensor loss(const Tensor& tokens, const Tensor& targets, const ForwardOptions& options) const;
  /// Appends tokens [1, T] to those that `cache` holds, and returns the logits [1, V] of the next
  /// token. T is 1 unless the cache is empty. Has no gradient.
  Tensor next_logits(const Tensor& tokens, GptCache& cache) const;

 private:
  /// The last layer's result, normalised: [B, T, C].
  Tensor hidden(const Tensor& tokens, const ForwardOptions& options) const;
  /// hidden [.., C] · head = [.., V].
  Tensor logits(const Tensor& hidden) const;

  const GptConfig config_;
  nn::Embedding wte_;
  nn::Embedding wpe_;
  std::vector<std::unique_ptr<GptBlock>> blocks_;
  nn::LayerNorm ln_f_;
  const Parameter* head_;  ///< [V, C]
};

}  // namespace zerolab

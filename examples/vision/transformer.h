#pragma once

#include <fmt/core.h>

#include <memory>
#include <vector>

#include "framework/nn/layer_norm.h"
#include "framework/nn/linear.h"
#include "framework/ops/attention.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/positions.h"
#include "framework/ops/rearrange.h"

namespace zerolab::examples {

inline constexpr int64_t kSide = 12;  ///< of an image, in pixels
inline constexpr int64_t kPatch = 3;
inline constexpr int64_t kPatches = (kSide / kPatch) * (kSide / kPatch);
inline constexpr int64_t kWidth = 32;
inline constexpr int64_t kHeads = 2;
inline constexpr int64_t kBlocks = 2;
inline constexpr int64_t kClasses = 4;

/// Attention in which every patch sees all others, then an MLP; each on top of what comes in.
class Block final : public nn::Module {
 public:
  explicit Block(const nn::Scope& scope)
      : Module(scope),
        norm_1_(scope.child("norm_1"), kWidth, true),
        qkv_(scope.child("qkv"), kWidth, 3 * kWidth, true, 0.1),
        projection_(scope.child("projection"), kWidth, kWidth, true, 0.1),
        norm_2_(scope.child("norm_2"), kWidth, true),
        widen_(scope.child("widen"), kWidth, 2 * kWidth, true, 0.1),
        narrow_(scope.child("narrow"), 2 * kWidth, kWidth, true, 0.1) {
    for (const nn::Module* module : std::initializer_list<const nn::Module*>{
             &norm_1_, &qkv_, &projection_, &norm_2_, &widen_, &narrow_}) {
      add_module(*module);
    }
  }

  Tensor forward(const Tensor& x) const {
    const Tensor attended = ops::full_attention(qkv_.forward(norm_1_.forward(x)), kHeads);
    const Tensor y = ops::add(x, projection_.forward(attended));
    return ops::add(y, narrow_.forward(ops::silu(widen_.forward(norm_2_.forward(y)))));
  }

 private:
  const nn::LayerNorm norm_1_;
  const nn::Linear qkv_;
  const nn::Linear projection_;
  const nn::LayerNorm norm_2_;
  const nn::Linear widen_;
  const nn::Linear narrow_;
};

/// A small vision transformer (Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021),
/// with the mean over patches in the place of a class token.
class VisionTransformer final : public nn::Module {
 public:
  explicit VisionTransformer(const nn::Scope& scope)
      : Module(scope),
        embedding_(scope.child("embedding"), kPatch * kPatch, kWidth, true, 0.3),
        positions_(
            add_parameter(scope, "positions", Shape{kPatches, kWidth}, nn::Init::normal(0.1))),
        norm_(scope.child("norm"), kWidth, true),
        head_(scope.child("head"), kWidth, kClasses, true, 0.1) {
    add_module(embedding_);
    for (int64_t i = 0; i < kBlocks; ++i) {
      blocks_.push_back(std::make_unique<Block>(scope.child(fmt::format("blocks.{}", i))));
      add_module(*blocks_.back());
    }
    add_module(norm_);
    add_module(head_);
  }

  /// images [B, kSide, kSide] to logits [B, kClasses].
  Tensor forward(const Tensor& images) const {
    const int64_t count = images.shape()[0];
    constexpr int64_t kAcross = kSide / kPatch;
    // Rows of patches, [B * kAcross, kPatch, kAcross, kPatch], become patches of rows.
    const Tensor patches =
        ops::transpose(images.view(Shape{count * kAcross, kPatch, kAcross, kPatch}), 1, 2);
    Tensor x = embedding_.forward(patches.view(Shape{count, kPatches, kPatch * kPatch}));
    x = ops::add(x, positions_.tensor());
    for (const auto& block : blocks_) {
      x = block->forward(x);
    }
    return head_.forward(ops::mean_positions(norm_.forward(x)));
  }

 private:
  const nn::Linear embedding_;
  Parameter& positions_;
  std::vector<std::unique_ptr<Block>> blocks_;
  const nn::LayerNorm norm_;
  const nn::Linear head_;
};

}  // namespace zerolab::examples

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "framework/onednn/attention_tiles.h"
#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/small_product.h"
#include "framework/onednn/vector_math.h"

namespace zerolab {
namespace onednn {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

/// The work of one head's tile of queries, forward.
template <typename T>
class ForwardTile {
 public:
  ForwardTile(const Heads& heads, Vector* tiles) : heads_(heads) {
    for (Vector** tile : {&queries_, &sums_, &keys_, &values_}) {
      *tile = tiles;
      tiles += heads.tile_vectors();
    }
  }

  static int64_t vectors(const Heads& heads) { return 4 * heads.tile_vectors(); }

  void run(const T* qkv, int64_t query, T* out, float* log_sum_exp) {
    const int64_t stride = 3 * heads_.C;
    const int64_t count = std::min(kTile, heads_.T - query);
    load_transposed(qkv + query * stride, stride, count, heads_.D, queries_);
    largest_.fill(broadcast(kLowest));
    total_.fill(Vector{});
    std::fill_n(sums_, heads_.D * kTileVectors, Vector{});
    for_key_blocks(heads_, query, [&](const KeyBlock& block) {
      add_block(qkv + heads_.C + block.begin * stride, block);
    });
    for (int64_t v = 0; v < kTileVectors; ++v) {
      for (int64_t d = 0; d < heads_.D; ++d) {
        sums_[d * kTileVectors + v] /= total_[v];
      }
      for (int64_t i = 0; i < kLanes && v * kLanes + i < count; ++i) {
        log_sum_exp[query + v * kLanes + i] = largest_[v][i] + std::log(total_[v][i]);
      }
    }
    store_transposed(sums_, heads_.C, count, heads_.D, out + query * heads_.C, false);
  }

 private:
  void add_block(const T* qkv, const KeyBlock& block) {
    const int64_t stride = 3 * heads_.C;
    const int64_t first = block.first_vector;
    const FloatRows keys = widened(qkv, stride, block.size, heads_, keys_);
    const FloatRows values = widened(qkv + heads_.C, stride, block.size, heads_, values_);
    Vector weights[kTile * kTileVectors];
    multiply_small({keys.data, keys.stride, 1}, block.size, heads_.D, queries_ + first,
                   weights + first, kTileVectors, kTileVectors - first, false);
    const float scale = heads_.scale();
    for (int64_t v = first; v < kTileVectors; ++v) {
      Vector largest = largest_[v];
      for (int64_t j = 0; j < block.size; ++j) {
        Vector& score = weights[j * kTileVectors + v];
        score = masked(score * scale, block, j, v, kLowest);
        largest = maximum(score, largest);
      }
      const Vector shrink = exp(largest_[v] - largest);
      Vector total = total_[v] * shrink;
      for (int64_t j = 0; j < block.size; ++j) {
        Vector& weight = weights[j * kTileVectors + v];
        weight = exp(weight - largest);
        total += weight;
      }
      for (int64_t d = 0; d < heads_.D; ++d) {
        sums_[d * kTileVectors + v] *= shrink;
      }
      largest_[v] = largest;
      total_[v] = total;
    }
    multiply_small({values.data, 1, values.stride}, heads_.D, block.size, weights + first,
                   sums_ + first, kTileVectors, kTileVectors - first, true);
  }

  const Heads& heads_;
  Vector* queries_;
  Vector* sums_;
  Vector* keys_;
  Vector* values_;
  std::array<Vector, kTileVectors> largest_;
  std::array<Vector, kTileVectors> total_;
};

}  // namespace
}  // namespace onednn

void OnednnBackend::attention_forward(Stream& stream, const Tensor& qkv, int64_t num_heads,
                                      AttentionMask mask, const Tensor& out,
                                      const Tensor& log_sum_exp) {
  onednn::with_type(qkv.dtype(), [&]<typename T>(T) {
    onednn::launch_heads<onednn::ForwardTile<T>>(
        stream, onednn::Heads(qkv, num_heads, mask),
        [qkv = onednn::elements<T>(qkv), out = onednn::elements<T>(out),
         log_sum_exp = onednn::floats(log_sum_exp)](const onednn::Heads& heads, int64_t b,
                                                    int64_t h, onednn::ForwardTile<T>& tile) {
          const int64_t at = b * heads.T * heads.C;
          for (int64_t query = 0; query < heads.T; query += onednn::kTile) {
            tile.run(qkv + 3 * at + h * heads.D, query, out + at + h * heads.D,
                     log_sum_exp + (b * heads.H + h) * heads.T);
          }
        });
  });
}

}  // namespace zerolab

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "framework/onednn/attention_tiles.h"
#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/small_product.h"
#include "framework/onednn/vector_math.h"

namespace zerolab {
namespace onednn {
namespace {

/// One head's gradients of keys and values, summed over the tiles of queries: in dqkv itself where
/// that is fp32, else in memory of its own, so that they are rounded once.
template <typename T>
class KeyGradients {
 public:
  KeyGradients(const Heads& heads, Vector* room) : heads_(heads), room_(room) {}

  static int64_t vectors(const Heads& heads) {
    return kInPlace ? 0 : 2 * heads.T * heads.row_vectors();
  }

  /// `dqkv` points to the head's first query.
  void begin(T* dqkv, bool accumulate) {
    if constexpr (kInPlace) {
      sums_ = dqkv + heads_.C;
      stride_ = 3 * heads_.C;
      values_at_ = heads_.C;
    } else {
      sums_ = reinterpret_cast<float*>(room_);
      values_at_ = heads_.row_vectors() * kLanes;
      stride_ = 2 * values_at_;
    }
    for (int64_t t = 0; t < heads_.T && !(kInPlace && accumulate); ++t) {
      std::fill_n(sums_ + t * stride_, heads_.D, 0.0F);
      std::fill_n(sums_ + t * stride_ + values_at_, heads_.D, 0.0F);
    }
  }
  void add_to_keys(int64_t key, const Vector* rows, int64_t count) {
    add_rows(rows, count, sums_ + key * stride_);
  }
  void add_to_values(int64_t key, const Vector* rows, int64_t count) {
    add_rows(rows, count, sums_ + key * stride_ + values_at_);
  }
  void end(T* dqkv, bool accumulate) const {
    for (int64_t t = 0; t < heads_.T && !kInPlace; ++t) {
      const float* sums = sums_ + t * stride_;
      T* out = dqkv + t * 3 * heads_.C + heads_.C;
      for_vectors(0, heads_.D, [&](int64_t d, auto lanes) {
        put(lanes, out + d, lanes.load(sums + d), accumulate);
        put(lanes, out + heads_.C + d, lanes.load(sums + values_at_ + d), accumulate);
      });
    }
  }

 private:
  static constexpr bool kInPlace = std::is_same_v<T, float>;

  /// Of rows of whole vectors.
  void add_rows(const Vector* rows, int64_t count, float* out) const {
    for (int64_t i = 0; i < count; ++i) {
      for_vectors(0, heads_.D,
                  [&](int64_t d, auto lanes) { put(lanes, out + i * stride_ + d, *rows++, true); });
    }
  }

  const Heads& heads_;
  Vector* room_;
  float* sums_ = nullptr;
  int64_t stride_ = 0;
  int64_t values_at_ = 0;
};

/// The work of one head's tile of queries, backward: writes its part of dq, adds to dk and dv.
template <typename T>
class BackwardTile {
 public:
  BackwardTile(const Heads& heads, Vector* tiles)
      : heads_(heads), key_gradients_(heads, tiles + 8 * heads.tile_vectors()) {
    for (Vector** tile :
         {&queries_, &dy_, &query_rows_, &dy_rows_, &dqueries_, &rows_, &keys_, &values_}) {
      *tile = tiles;
      tiles += heads.tile_vectors();
    }
  }

  static int64_t vectors(const Heads& heads) {
    return 8 * heads.tile_vectors() + KeyGradients<T>::vectors(heads);
  }

  /// Around the runs of a head.
  KeyGradients<T>& key_gradients() { return key_gradients_; }

  void run(const T* qkv, const T* out, const float* log_sum_exp, const T* dy, int64_t query,
           T* dqkv, bool accumulate) {
    const int64_t D = heads_.D;
    const int64_t stride = 3 * heads_.C;
    count_ = std::min(kTile, heads_.T - query);
    load_transposed(qkv + query * stride, stride, count_, D, queries_);
    load_transposed(dy + query * heads_.C, heads_.C, count_, D, dy_);
    load_rows(qkv + query * stride, stride, count_, D, query_rows_);
    load_rows(dy + query * heads_.C, heads_.C, count_, D, dy_rows_);
    load_transposed(out + query * heads_.C, heads_.C, count_, D, dqueries_);
    for (int64_t v = 0; v < kTileVectors; ++v) {
      // Softmax's gradient subtracts the mean of the weights' gradients, which equals dy · out.
      mean_[v] = Vector{};
      for (int64_t d = 0; d < D; ++d) {
        mean_[v] += dy_[d * kTileVectors + v] * dqueries_[d * kTileVectors + v];
      }
      const int64_t rest = std::clamp<int64_t>(count_ - v * kLanes, 0, kLanes);
      log_sum_exp_[v] = rest == kLanes ? load(log_sum_exp + query + v * kLanes)
                                       : load_first(log_sum_exp + query + v * kLanes, rest);
    }
    std::fill_n(dqueries_, D * kTileVectors, Vector{});
    for_key_blocks(heads_, query, [&](const KeyBlock& block) {
      add_block(qkv + heads_.C + block.begin * stride, block);
    });
    store_transposed(dqueries_, stride, count_, D, dqkv + query * stride, accumulate);
  }

 private:
  void add_block(const T* qkv, const KeyBlock& block) {
    const int64_t D = heads_.D;
    const int64_t stride = 3 * heads_.C;
    const int64_t first = block.first_vector;
    const FloatRows keys = widened(qkv, stride, block.size, heads_, keys_);
    const FloatRows values = widened(qkv + heads_.C, stride, block.size, heads_, values_);
    Vector weights[kTile * kTileVectors];
    Vector dscores[kTile * kTileVectors];
    multiply_small({keys.data, keys.stride, 1}, block.size, D, queries_ + first, weights + first,
                   kTileVectors, kTileVectors - first, false);
    multiply_small({values.data, values.stride, 1}, block.size, D, dy_ + first, dscores + first,
                   kTileVectors, kTileVectors - first, false);
    const float scale = heads_.scale();
    for (int64_t j = 0; j < block.size; ++j) {
      for (int64_t v = first; v < kTileVectors; ++v) {
        Vector& weight = weights[j * kTileVectors + v];
        Vector& dscore = dscores[j * kTileVectors + v];
        weight = masked(exp(weight * scale - log_sum_exp_[v]), block, j, v, 0.0F);
        dscore = weight * (dscore - mean_[v]) * scale;
      }
    }
    multiply_small({keys.data, 1, keys.stride}, D, block.size, dscores + first, dqueries_ + first,
                   kTileVectors, kTileVectors - first, true);
    multiply_over_queries(dscores, block, query_rows_);
    key_gradients_.add_to_keys(block.begin, rows_, block.size);
    multiply_over_queries(weights, block, dy_rows_);
    key_gradients_.add_to_values(block.begin, rows_, block.size);
  }

  /// rows_[key] = sum over the tile's queries of factors[key][query] * rows[query].
  void multiply_over_queries(const Vector* factors, const KeyBlock& block, const Vector* rows) {
    const int64_t first_query = block.first_vector * kLanes;
    const int64_t width = heads_.row_vectors();
    multiply_small({reinterpret_cast<const float*>(factors) + first_query, kTile, 1}, block.size,
                   count_ - first_query, rows + first_query * width, rows_, width, width, false);
  }

  const Heads& heads_;
  int64_t count_ = 0;
  Vector* queries_;
  Vector* dy_;
  Vector* query_rows_;
  Vector* dy_rows_;
  Vector* dqueries_;
  Vector* rows_;
  Vector* keys_;
  Vector* values_;
  KeyGradients<T> key_gradients_;
  std::array<Vector, kTileVectors> mean_;
  std::array<Vector, kTileVectors> log_sum_exp_;
};

}  // namespace
}  // namespace onednn

void OnednnBackend::attention_backward(Stream& stream, const Tensor& qkv, const Tensor& out,
                                       const Tensor& log_sum_exp, const Tensor& dy,
                                       int64_t num_heads, AttentionMask mask, const Tensor& dqkv,
                                       bool accumulate) {
  onednn::with_type(qkv.dtype(), [&]<typename T>(T) {
    onednn::launch_heads<onednn::BackwardTile<T>>(
        stream, onednn::Heads(qkv, num_heads, mask),
        [qkv = onednn::elements<T>(qkv), out = onednn::elements<T>(out),
         log_sum_exp = onednn::floats(log_sum_exp), dy = onednn::elements<T>(dy),
         dqkv = onednn::elements<T>(dqkv), accumulate](const onednn::Heads& heads, int64_t b,
                                                       int64_t h, onednn::BackwardTile<T>& tile) {
          const int64_t at = b * heads.T * heads.C + h * heads.D;
          const int64_t at_qkv = 3 * b * heads.T * heads.C + h * heads.D;
          tile.key_gradients().begin(dqkv + at_qkv, accumulate);
          for (int64_t query = 0; query < heads.T; query += onednn::kTile) {
            tile.run(qkv + at_qkv, out + at, log_sum_exp + (b * heads.H + h) * heads.T, dy + at,
                     query, dqkv + at_qkv, accumulate);
          }
          tile.key_gradients().end(dqkv + at_qkv, accumulate);
        });
  });
}

}  // namespace zerolab

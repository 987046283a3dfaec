#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "framework/onednn/kernel.h"
#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/small_product.h"
#include "framework/onednn/vector_math.h"

// Flash attention (Dao 2022) with a vector's lanes as queries: scores, weights and results of a
// tile of queries lie transposed, [key or component][query], so that the softmax runs lane by lane,
// a key or value element is a broadcast straight from qkv, and any head size does without
// remainders.

namespace zerolab {

using onednn::broadcast;
using onednn::elements;
using onednn::exp;
using onednn::floats;
using onednn::IntVector;
using onednn::kLanes;
using onednn::multiply_small;
using onednn::Vector;
using onednn::with_type;

namespace {

constexpr int64_t kTileVectors = 4;
constexpr int64_t kTile = kTileVectors * kLanes;  ///< queries of a tile, and keys of a block
constexpr float kLowest = -std::numeric_limits<float>::infinity();

/// The extents of one call.
struct Heads {
  Heads(const Tensor& qkv, int64_t num_heads, AttentionMask mask)
      : B(qkv.shape()[0]),
        T(qkv.shape()[1]),
        C(qkv.shape()[2] / 3),
        H(num_heads),
        D(C / H),
        causal(mask == AttentionMask::kCausal) {}

  /// Vectors of one [component][query] tile; also of a [query][component] tile with whole vectors.
  int64_t tile_vectors() const { return std::max(D * kTileVectors, kTile * row_vectors()); }
  int64_t row_vectors() const { return (D + kLanes - 1) / kLanes; }
  float scale() const { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(D))); }

  int64_t B, T, C, H, D;
  bool causal;
};

/// Keys that share what is masked: whole blocks where every query sees all of them, and from a
/// causal tile's first query on one vector's worth a time.
struct KeyBlock {
  int64_t begin;
  int64_t size;
  int64_t first_vector;  ///< of the tile's queries; those before see none of the keys
  bool diagonal;         ///< the queries of `first_vector` see the keys up to themselves
};

/// Calls `body` with each block of keys that the queries from `query` on may see.
template <typename Body>
void for_key_blocks(const Heads& heads, int64_t query, Body&& body) {
  const int64_t T = heads.T;
  for (int64_t begin = 0; begin < (heads.causal ? query : T); begin += kTile) {
    body(KeyBlock{begin, std::min(kTile, T - begin), 0, false});
  }
  for (int64_t vector = 0;
       heads.causal && vector < kTileVectors && query + vector * kLanes < T; ++vector) {
    const int64_t begin = query + vector * kLanes;
    body(KeyBlock{begin, std::min<int64_t>(kLanes, T - begin), vector, true});
  }
}

/// out[d][query] = source[query * stride + d]; queries beyond `count` are 0.
template <typename T>
void load_transposed(const T* source, int64_t stride, int64_t count, int64_t D, Vector* out) {
  for (int64_t v = 0; v < kTileVectors; ++v) {
    for (int64_t d = 0; d < D; d += kLanes) {
      const int64_t width = std::min<int64_t>(kLanes, D - d);
      Vector rows[kLanes] = {};
      for (int64_t i = 0; i < kLanes && v * kLanes + i < count; ++i) {
        const T* row = source + (v * kLanes + i) * stride + d;
        rows[i] = width == kLanes ? onednn::load(row) : onednn::load_first(row, width);
      }
      onednn::transpose(rows);
      for (int64_t i = 0; i < width; ++i) {
        out[(d + i) * kTileVectors + v] = rows[i];
      }
    }
  }
}

/// out[query * stride + d] (+)= source[d][query] for the first `count` queries.
template <typename T>
void store_transposed(const Vector* source, int64_t stride, int64_t count, int64_t D, T* out,
                      bool accumulate) {
  for (int64_t v = 0; v < kTileVectors; ++v) {
    for (int64_t d = 0; d < D; d += kLanes) {
      const int64_t width = std::min<int64_t>(kLanes, D - d);
      Vector rows[kLanes] = {};
      for (int64_t i = 0; i < width; ++i) {
        rows[i] = source[(d + i) * kTileVectors + v];
      }
      onednn::transpose(rows);
      for (int64_t i = 0; i < kLanes && v * kLanes + i < count; ++i) {
        T* row = out + (v * kLanes + i) * stride + d;
        onednn::for_vectors(0, width, [&](int64_t at, auto lanes) {
          onednn::put(lanes, row + at, rows[i], accumulate);
        });
      }
    }
  }
}

/// out[query][d] = source[query * stride + d] in rows of whole vectors.
template <typename T>
void load_rows(const T* source, int64_t stride, int64_t count, int64_t D, Vector* out) {
  for (int64_t i = 0; i < count; ++i) {
    onednn::for_vectors(
        0, D, [&](int64_t d, auto lanes) { *out++ = lanes.load(source + i * stride + d); });
  }
}

/// Rows of fp32, `stride` apart.
struct FloatRows {
  const float* data;
  int64_t stride;
};

/// Rows of T as fp32: where they are, or widened into `room`.
template <typename T>
FloatRows widened(const T* source, int64_t stride, int64_t count, const Heads& heads,
                  Vector* room) {
  if constexpr (std::is_same_v<T, float>) {
    return {source, stride};
  } else {
    load_rows(source, stride, count, heads.D, room);
    return {reinterpret_cast<const float*>(room), heads.row_vectors() * kLanes};
  }
}

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
      onednn::for_vectors(0, heads_.D, [&](int64_t d, auto lanes) {
        onednn::put(lanes, out + d, lanes.load(sums + d), accumulate);
        onednn::put(lanes, out + heads_.C + d, lanes.load(sums + values_at_ + d), accumulate);
      });
    }
  }

 private:
  static constexpr bool kInPlace = std::is_same_v<T, float>;

  /// Of rows of whole vectors.
  void add_rows(const Vector* rows, int64_t count, float* out) const {
    for (int64_t i = 0; i < count; ++i) {
      onednn::for_vectors(0, heads_.D, [&](int64_t d, auto lanes) {
        onednn::put(lanes, out + i * stride_ + d, *rows++, true);
      });
    }
  }

  const Heads& heads_;
  Vector* room_;
  float* sums_ = nullptr;
  int64_t stride_ = 0;
  int64_t values_at_ = 0;
};

/// In the vector of queries on the diagonal, a query sees the keys up to itself.
Vector masked(Vector scores, const KeyBlock& block, int64_t key, int64_t vector, float otherwise) {
  if (!block.diagonal || vector != block.first_vector) {
    return scores;
  }
  return onednn::kLaneIndex >= static_cast<int32_t>(key) ? scores : broadcast(otherwise);
}

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
        largest = onednn::maximum(score, largest);
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
      log_sum_exp_[v] = rest == kLanes ? onednn::load(log_sum_exp + query + v * kLanes)
                                       : onednn::load_first(log_sum_exp + query + v * kLanes, rest);
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

/// One head's last query, which sees all keys: here the lanes are its components. `qkv` points to
/// the head's first query; `weights` has room for T, `sums` for a row.
template <typename T>
void attend_last(const Heads& heads, const T* qkv, std::vector<float>& weights,
                 std::vector<Vector>& sums, T* out) {
  const int64_t stride = 3 * heads.C;
  const T* query = qkv + (heads.T - 1) * stride;
  const T* keys = qkv + heads.C;
  const T* values = keys + heads.C;
  const float scale = heads.scale();
  for (int64_t t = 0; t < heads.T; ++t) {
    Vector products = {};
    onednn::for_vectors(0, heads.D, [&](int64_t d, auto lanes) {
      products =
          onednn::multiply_add(lanes.load(query + d), lanes.load(keys + t * stride + d), products);
    });
    weights[t] = scale * onednn::sum_of(products);
  }
  const float largest = *std::max_element(weights.begin(), weights.end());
  Vector totals = {};
  onednn::for_vectors(0, heads.T, [&](int64_t t, auto lanes) {
    const Vector weight = lanes.keep(exp(lanes.load(&weights[t]) - largest));
    lanes.store(&weights[t], weight);
    totals += weight;
  });
  const float total = onednn::sum_of(totals);
  std::fill(sums.begin(), sums.end(), Vector{});
  for (int64_t t = 0; t < heads.T; ++t) {
    onednn::for_vectors(0, heads.D, [&](int64_t d, auto lanes) {
      Vector& sum = sums[d / kLanes];
      sum = onednn::multiply_add(broadcast(weights[t]), lanes.load(values + t * stride + d), sum);
    });
  }
  onednn::for_vectors(
      0, heads.D, [&](int64_t d, auto lanes) { lanes.store(out + d, sums[d / kLanes] / total); });
}

/// Puts `body(b, h, tile)` for each head on the stream, with a tile of its own for each thread.
template <typename Tile, typename Body>
void launch_heads(Stream& stream, const Heads& heads, Body&& body) {
  static_cast<CpuStream&>(stream).launch([threads = onednn::threads_for(stream), heads, body] {
    const int64_t vectors = Tile::vectors(heads);
    std::vector<Vector> tiles(threads * vectors);
    onednn::parallel_chunks(threads, heads.B * heads.H, 1, [&](int64_t begin, int64_t end) {
      Tile tile(heads, tiles.data() + omp_get_thread_num() * vectors);
      for (int64_t i = begin; i < end; ++i) {
        body(heads, i / heads.H, i % heads.H, tile);
      }
    });
  });
}

}  // namespace

void OnednnBackend::attention_forward(Stream& stream, const Tensor& qkv, int64_t num_heads,
                                      AttentionMask mask, const Tensor& out,
                                      const Tensor& log_sum_exp) {
  with_type(qkv.dtype(), [&]<typename T>(T) {
    launch_heads<ForwardTile<T>>(
        stream, Heads(qkv, num_heads, mask),
        [qkv = elements<T>(qkv), out = elements<T>(out), log_sum_exp = floats(log_sum_exp)](
            const Heads& heads, int64_t b, int64_t h, ForwardTile<T>& tile) {
          const int64_t at = b * heads.T * heads.C;
          for (int64_t query = 0; query < heads.T; query += kTile) {
            tile.run(qkv + 3 * at + h * heads.D, query, out + at + h * heads.D,
                     log_sum_exp + (b * heads.H + h) * heads.T);
          }
        });
  });
}

void OnednnBackend::attention_backward(Stream& stream, const Tensor& qkv, const Tensor& out,
                                       const Tensor& log_sum_exp, const Tensor& dy,
                                       int64_t num_heads, AttentionMask mask, const Tensor& dqkv,
                                       bool accumulate) {
  with_type(qkv.dtype(), [&]<typename T>(T) {
    launch_heads<BackwardTile<T>>(
        stream, Heads(qkv, num_heads, mask),
        [qkv = elements<T>(qkv), out = elements<T>(out), log_sum_exp = floats(log_sum_exp),
         dy = elements<T>(dy), dqkv = elements<T>(dqkv),
         accumulate](const Heads& heads, int64_t b, int64_t h, BackwardTile<T>& tile) {
          const int64_t at = b * heads.T * heads.C + h * heads.D;
          const int64_t at_qkv = 3 * b * heads.T * heads.C + h * heads.D;
          tile.key_gradients().begin(dqkv + at_qkv, accumulate);
          for (int64_t query = 0; query < heads.T; query += kTile) {
            tile.run(qkv + at_qkv, out + at, log_sum_exp + (b * heads.H + h) * heads.T, dy + at,
                     query, dqkv + at_qkv, accumulate);
          }
          tile.key_gradients().end(dqkv + at_qkv, accumulate);
        });
  });
}

void OnednnBackend::attention_last(Stream& stream, const Tensor& qkv, int64_t num_heads,
                                   const Tensor& out) {
  with_type(qkv.dtype(), [&]<typename T>(T) {
    const Heads heads(qkv, num_heads, AttentionMask::kCausal);
    onednn::launch_chunks(
        stream, heads.B * heads.H, 1,
        [heads, qkv = elements<T>(qkv), out = elements<T>(out)](int64_t begin, int64_t end) {
          std::vector<float> weights(heads.T);
          std::vector<Vector> sums(heads.row_vectors());
          for (int64_t i = begin; i < end; ++i) {
            const int64_t b = i / heads.H;
            const int64_t at_head = i % heads.H * heads.D;
            attend_last(heads, qkv + 3 * b * heads.T * heads.C + at_head, weights, sums,
                        out + b * heads.C + at_head);
          }
        });
  });
}

}  // namespace zerolab

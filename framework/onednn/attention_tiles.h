#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "framework/kernels/attention_mask.h"
#include "framework/onednn/kernel.h"
#include "framework/onednn/vector.h"
#include "framework/tensor/tensor.h"

// Flash attention (Dao 2022) with a vector's lanes as queries: scores, weights and results of a
// tile of queries lie transposed, [key or component][query], so that the softmax runs lane by lane,
// a key or value element is a broadcast straight from qkv, and any head size does without
// remainders.

namespace zerolab::onednn {

inline constexpr int64_t kTileVectors = 4;
inline constexpr int64_t kTile = kTileVectors * kLanes;  ///< queries of a tile, and keys of a block

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
  for (int64_t vector = 0; heads.causal && vector < kTileVectors && query + vector * kLanes < T;
       ++vector) {
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
        rows[i] = width == kLanes ? load(row) : load_first(row, width);
      }
      transpose(rows);
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
      transpose(rows);
      for (int64_t i = 0; i < kLanes && v * kLanes + i < count; ++i) {
        T* row = out + (v * kLanes + i) * stride + d;
        for_vectors(0, width,
                    [&](int64_t at, auto lanes) { put(lanes, row + at, rows[i], accumulate); });
      }
    }
  }
}

/// out[query][d] = source[query * stride + d] in rows of whole vectors.
template <typename T>
void load_rows(const T* source, int64_t stride, int64_t count, int64_t D, Vector* out) {
  for (int64_t i = 0; i < count; ++i) {
    for_vectors(0, D, [&](int64_t d, auto lanes) { *out++ = lanes.load(source + i * stride + d); });
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

/// In the vector of queries on the diagonal, a query sees the keys up to itself.
inline Vector masked(Vector scores, const KeyBlock& block, int64_t key, int64_t vector,
                     float otherwise) {
  if (!block.diagonal || vector != block.first_vector) {
    return scores;
  }
  return kLaneIndex >= static_cast<int32_t>(key) ? scores : broadcast(otherwise);
}

/// Puts `body(b, h, tile)` for each head on the stream, with a tile of its own for each thread.
template <typename Tile, typename Body>
void launch_heads(Stream& stream, const Heads& heads, Body&& body) {
  static_cast<CpuStream&>(stream).launch([threads = threads_for(stream), heads, body] {
    const int64_t vectors = Tile::vectors(heads);
    std::vector<Vector> tiles(threads * vectors);
    parallel_chunks(threads, heads.B * heads.H, 1, [&](int64_t begin, int64_t end) {
      Tile tile(heads, tiles.data() + omp_get_thread_num() * vectors);
      for (int64_t i = begin; i < end; ++i) {
        body(heads, i / heads.H, i % heads.H, tile);
      }
    });
  });
}

}  // namespace zerolab::onednn

#pragma once

#include <cmath>
#include <cstdint>

#include "framework/core/error.h"
#include "framework/cuda/check.h"
#include "framework/cuda/kernel.h"
#include "framework/kernels/attention_call.h"
#include "framework/tensor/tensor.h"

// Flash attention (Dao 2022). A block owns a tile of one head's positions and goes over the tiles
// of the other kind: queries over keys, and for the gradients of keys and values the reverse. No
// score leaves the chip, and every sum has one owner and one order. Tiles are fp32 rows in shared
// memory, and their products those of small matrices: of each one, a block's kSide x kSide threads
// compute kPer x kPer numbers, or kPer rows of kQuads times four neighbouring components.

namespace zerolab::cuda {

inline constexpr int kSide = 16;
static_assert(kSide * kSide == kThreads);
inline constexpr int kLargestHead = 128;
inline constexpr int kPad =
    4;  // floats between rows in shared memory, which puts a column into all banks
inline constexpr float kLowest = -INFINITY;

using Quad = Pack<float, 4>;

/// The extents of one call, and where in qkv [B, T, 3C] and out [B, T, C] the block's head is. Its
/// next position is 3C, C elements further.
struct Heads {
  Heads(const Tensor& qkv, int64_t num_heads, AttentionMask mask)
      : B(qkv.shape()[0]),
        T(qkv.shape()[1]),
        C(qkv.shape()[2] / 3),
        H(num_heads),
        D(static_cast<int>(C / H)),
        causal(mask == AttentionMask::kCausal),
        scale(static_cast<float>(1.0 / std::sqrt(static_cast<double>(D)))) {}

  __device__ bool sees(int64_t query, int64_t key) const {
    return key < T && (!causal || key <= query);
  }
  /// Keys before this are all that a tile's queries see; `tile` begins with its first query.
  __device__ int64_t end_of_keys(int64_t tile) const { return causal ? tile + 1 : T; }

  __device__ int64_t query() const { return blockIdx.x / H * T * 3 * C + blockIdx.x % H * D; }
  __device__ int64_t out() const { return blockIdx.x / H * T * C + blockIdx.x % H * D; }
  __device__ int64_t row() const { return blockIdx.x * T; }
  /// Floats from a row of a tile to the next: whole quads, and kPad.
  __host__ __device__ int pitch() const { return (D + 3) / 4 * 4 + kPad; }

  int64_t B, T, C, H;
  int D;
  bool causal;
  float scale;
};

inline __device__ int own_row() { return static_cast<int>(threadIdx.x) / kSide; }
inline __device__ int own_column() { return static_cast<int>(threadIdx.x) % kSide; }

/// The sum, or the largest, over the threads of one own_row.
inline __device__ float row_sum(float value) {
  for (int distance = kSide / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kFullMask, value, distance);
  }
  return value;
}
inline __device__ float row_max(float value) {
  for (int distance = kSide / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kFullMask, value, distance));
  }
  return value;
}

/// tile[i] = the D components at source + i * stride, for `rows` rows; those from `count` on and
/// components beyond D are 0.
template <Element T>
__device__ void load_rows(const T* source, int64_t stride, int64_t count, int rows,
                          const Heads& heads, float* tile) {
  const int pitch = heads.pitch();
  for (int i = threadIdx.x / kWarp; i < rows; i += kThreads / kWarp) {
    for (int d = threadIdx.x % kWarp; d < pitch - kPad; d += kWarp) {
      tile[i * pitch + d] = i < count && d < heads.D ? load(source[i * stride + d]) : 0.0F;
    }
  }
}

/// out[i][j] = row own_row · kPer + i of `a` times row own_column + j · kSide of `b`.
template <int kPer>
__device__ void multiply_rows(const float* a, const float* b, int pitch, float (&out)[kPer][kPer]) {
  for (int i = 0; i < kPer; ++i) {
    for (int j = 0; j < kPer; ++j) {
      out[i][j] = 0.0F;
    }
  }
  for (int d = 0; d < pitch - kPad; d += 4) {
    Quad left[kPer];
    for (int i = 0; i < kPer; ++i) {
      left[i] = load_pack<4>(a + (own_row() * kPer + i) * pitch + d);
    }
    for (int j = 0; j < kPer; ++j) {
      const Quad right = load_pack<4>(b + (own_column() + j * kSide) * pitch + d);
      for (int i = 0; i < kPer; ++i) {
        for (int lane = 0; lane < 4; ++lane) {
          out[i][j] = fmaf(left[i].lanes[lane], right.lanes[lane], out[i][j]);
        }
      }
    }
  }
}

/// A thread's part of a tile of rows: kPer from own_row · kPer on, and of each the quads of
/// components that begin at 4 · (own_column + q · kSide).
template <int kPer, int kQuads>
struct RowSums {
  Quad quads[kPer][kQuads] = {};

  /// += weights · rows.
  __device__ void add_product(const float* weights, const float* rows, const Heads& heads) {
    constexpr int kTile = kSide * kPer;
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const int component = 4 * (own_column() + q * kSide);
      for (int k = 0; k < kTile && component < heads.D; k += 4) {
        Quad right[4];
        for (int m = 0; m < 4; ++m) {
          right[m] = load_pack<4>(rows + (k + m) * heads.pitch() + component);
        }
        for (int i = 0; i < kPer; ++i) {
          const Quad left = load_pack<4>(weights + (own_row() * kPer + i) * (kTile + kPad) + k);
          for (int m = 0; m < 4; ++m) {
            for (int lane = 0; lane < 4; ++lane) {
              quads[i][q].lanes[lane] =
                  fmaf(left.lanes[m], right[m].lanes[lane], quads[i][q].lanes[lane]);
            }
          }
        }
      }
    }
  }

  __device__ void scale_row(int i, float factor) {
    for (Quad& quad : quads[i]) {
      for (float& lane : quad.lanes) {
        lane *= factor;
      }
    }
  }

  /// The first `count` rows of the tile; `out` is the first one's.
  template <Element T>
  __device__ void store_rows(T* out, int64_t stride, int64_t count, const Heads& heads,
                             bool accumulate) const {
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      const int row = own_row() * kPer + i;
#pragma unroll
      for (int q = 0; q < kQuads; ++q) {
#pragma unroll
        for (int lane = 0; lane < 4; ++lane) {
          const int d = 4 * (own_column() + q * kSide) + lane;
          if (row < count && d < heads.D) {
            store(out[row * stride + d], quads[i][q].lanes[lane], accumulate);
          }
        }
      }
    }
  }
};

/// Launches `kernel` with a block for each tile of each head; `row_tiles` tiles of rows, one of
/// weights and `more` floats a position are in shared memory.
template <int kPer, typename... Parameters, typename... Arguments>
void launch_tiles(Stream& stream, const Heads& heads, int row_tiles, int more,
                  void (*kernel)(Parameters...), Arguments... arguments) {
  constexpr int kTile = kSide * kPer;
  const size_t bytes = kTile * (row_tiles * heads.pitch() + (kTile + kPad) + more) * sizeof(float);
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "reserving shared memory for attention");
  const dim3 grid(static_cast<unsigned>(heads.B * heads.H),
                  static_cast<unsigned>((heads.T + kTile - 1) / kTile));
  launch(kernel, grid, dim3(kThreads), bytes, handle_of(stream), arguments...);
}

/// Calls `body<T, kPer, kQuads>()` for tiles that fit into shared memory; not if nothing is to be
/// done.
template <typename Body>
void with_tiles(const Heads& heads, DType dtype, Body&& body) {
  require(heads.D <= kLargestHead, "attention",
          "heads are too large for the cuda backend; got {} components, expected at most {}; take "
          "more heads",
          heads.D, kLargestHead);
  if (heads.B * heads.T * heads.D == 0) {
    return;
  }
  with_device_type(dtype, [&]<typename T>(T) {
    if (heads.D <= 4 * kSide) {
      body.template operator()<T, 4, 1>();
    } else {
      body.template operator()<T, 2, 2>();
    }
  });
}

/// Of dqkv; 16-byte aligned memory can follow.
inline int64_t attention_gradient_bytes(const AttentionCall& call) {
  const int64_t bytes =
      call.samples * call.positions * 3 * call.heads * call.head_size * size_of(call.dtype);
  return (bytes + 15) / 16 * 16;
}

}  // namespace zerolab::cuda

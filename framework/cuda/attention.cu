#include <cmath>

#include "framework/cuda/check.h"
#include "framework/cuda/cuda_backend.h"
#include "framework/cuda/kernel.h"

// Flash attention (Dao 2022). A block owns a tile of one head's positions and goes over the tiles
// of the other kind: queries over keys, and for the gradients of keys and values the reverse. No
// score leaves the chip, and every sum has one owner and one order. Tiles are fp32 rows in shared
// memory, and their products those of small matrices: of each one, a block's kSide x kSide threads
// compute kPer x kPer numbers, or kPer rows of kQuads times four neighbouring components.

namespace zerolab {

using cuda::Element;
using cuda::kThreads;
using cuda::kWarp;
using cuda::load;
using cuda::store;

namespace {

constexpr int kSide = 16;
static_assert(kSide * kSide == kThreads);
constexpr int kLargestHead = 128;
constexpr int kPad = 4;  // floats between rows in shared memory, which puts a column into all banks
constexpr float kLowest = -INFINITY;

using Quad = cuda::Pack<float, 4>;

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

__device__ int own_row() { return static_cast<int>(threadIdx.x) / kSide; }
__device__ int own_column() { return static_cast<int>(threadIdx.x) % kSide; }

/// The sum, or the largest, over the threads of one own_row.
__device__ float row_sum(float value) {
  for (int distance = kSide / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(cuda::kFullMask, value, distance);
  }
  return value;
}
__device__ float row_max(float value) {
  for (int distance = kSide / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(cuda::kFullMask, value, distance));
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
      left[i] = cuda::load_pack<4>(a + (own_row() * kPer + i) * pitch + d);
    }
    for (int j = 0; j < kPer; ++j) {
      const Quad right = cuda::load_pack<4>(b + (own_column() + j * kSide) * pitch + d);
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
          right[m] = cuda::load_pack<4>(rows + (k + m) * heads.pitch() + component);
        }
        for (int i = 0; i < kPer; ++i) {
          const Quad left =
              cuda::load_pack<4>(weights + (own_row() * kPer + i) * (kTile + kPad) + k);
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

template <int kPer, int kQuads, Element T>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const T* qkv, Heads heads, T* out, float* log_sum_exp) {
  constexpr int kTile = kSide * kPer;
  const int pitch = heads.pitch();
  float* queries = cuda::dynamic_shared<float>();
  float* keys = queries + kTile * pitch;
  float* values = keys + kTile * pitch;
  float* weights = values + kTile * pitch;
  const int64_t stride = 3 * heads.C;
  const int64_t begin = static_cast<int64_t>(gridDim.y - 1 - blockIdx.y) * kTile;  // longest first
  const int64_t count = heads.T - begin;
  qkv += heads.query();
  load_rows(qkv + begin * stride, stride, count, kTile, heads, queries);
  RowSums<kPer, kQuads> sums;
  float largest[kPer];
  float total[kPer];
  for (int i = 0; i < kPer; ++i) {
    largest[i] = kLowest;
    total[i] = 0.0F;
  }
  for (int64_t key = 0; key < heads.end_of_keys(begin); key += kTile) {
    __syncthreads();  // the previous tile has been used
    const T* source = qkv + key * stride + heads.C;
    load_rows(source, stride, heads.T - key, kTile, heads, keys);
    load_rows(source + heads.C, stride, heads.T - key, kTile, heads, values);
    __syncthreads();
    float scores[kPer][kPer];
    multiply_rows(queries, keys, pitch, scores);
    for (int i = 0; i < kPer; ++i) {
      const int row = own_row() * kPer + i;
      float new_largest = largest[i];
      for (int j = 0; j < kPer; ++j) {
        const bool seen = heads.sees(begin + row, key + own_column() + j * kSide);
        scores[i][j] = seen ? heads.scale * scores[i][j] : kLowest;
        new_largest = fmaxf(new_largest, scores[i][j]);
      }
      new_largest = row_max(new_largest);
      float added = 0.0F;
      for (int j = 0; j < kPer; ++j) {
        const float weight = expf(scores[i][j] - new_largest);
        weights[row * (kTile + kPad) + own_column() + j * kSide] = weight;
        added += weight;
      }
      const float shrink = expf(largest[i] - new_largest);
      total[i] = total[i] * shrink + row_sum(added);
      sums.scale_row(i, shrink);
      largest[i] = new_largest;
    }
    __syncthreads();
    sums.add_product(weights, values, heads);
  }
  for (int i = 0; i < kPer; ++i) {
    const int row = own_row() * kPer + i;
    sums.scale_row(i, 1.0F / total[i]);
    if (own_column() == 0 && row < count) {
      log_sum_exp[heads.row() + begin + row] = largest[i] + logf(total[i]);
    }
  }
  sums.store_rows(out + heads.out() + begin * heads.C, heads.C, count, heads, false);
}

/// The last query of one head: the block's warps take the keys in turn, each with a softmax of its
/// own, which are merged at the end.
template <Element T>
__global__ void __launch_bounds__(kThreads) last_kernel(const T* qkv, Heads heads, T* out) {
  constexpr int kWarps = kThreads / kWarp;
  constexpr int kPer = kLargestHead / kWarp;
  __shared__ float sums_of[kWarps][kLargestHead];
  __shared__ float largest_of[kWarps];
  __shared__ float total_of[kWarps];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t stride = 3 * heads.C;
  qkv += heads.query();
  float query[kPer];
  float sums[kPer];
  for (int i = 0; i < kPer; ++i) {
    const int d = lane + i * kWarp;
    query[i] = d < heads.D ? heads.scale * load(qkv[(heads.T - 1) * stride + d]) : 0.0F;
    sums[i] = 0.0F;
  }
  float largest = kLowest;
  float total = 0.0F;
  for (int64_t t = warp; t < heads.T; t += kWarps) {
    const T* key = qkv + t * stride + heads.C;
    float score = 0.0F;
    for (int i = 0; i < kPer; ++i) {
      const int d = lane + i * kWarp;
      score = d < heads.D ? fmaf(query[i], load(key[d]), score) : score;
    }
    score = cuda::warp_sum(score);
    const float new_largest = fmaxf(largest, score);
    const float weight = expf(score - new_largest);
    const float shrink = expf(largest - new_largest);
    for (int i = 0; i < kPer; ++i) {
      const int d = lane + i * kWarp;
      sums[i] = d < heads.D ? fmaf(weight, load(key[heads.C + d]), sums[i] * shrink) : 0.0F;
    }
    total = total * shrink + weight;
    largest = new_largest;
  }
  for (int i = 0; i < kPer; ++i) {
    sums_of[warp][lane + i * kWarp] = sums[i];
  }
  if (lane == 0) {
    largest_of[warp] = largest;
    total_of[warp] = total;
  }
  __syncthreads();
  const int d = static_cast<int>(threadIdx.x);
  if (d >= heads.D) {
    return;
  }
  largest = kLowest;
  for (const float of_warp : largest_of) {
    largest = fmaxf(largest, of_warp);
  }
  float sum = 0.0F;
  total = 0.0F;
  for (int w = 0; w < kWarps; ++w) {
    const float shrink = expf(largest_of[w] - largest);  // 0 for a warp without keys
    sum = fmaf(shrink, sums_of[w][d], sum);
    total = fmaf(shrink, total_of[w], total);
  }
  store(out[blockIdx.x / heads.H * heads.C + blockIdx.x % heads.H * heads.D + d], sum / total);
}

template <Element T>
struct BackwardArguments {
  const T* qkv;
  const T* out;
  const float* log_sum_exp;
  const T* dy;
  T* dqkv;
  bool accumulate;
};

/// The gradient of a tile of queries, or with `kOfKeys` of one of keys and of their values.
template <bool kOfKeys, int kPer, int kQuads, Element T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(BackwardArguments<T> arguments, Heads heads) {
  constexpr int kTile = kSide * kPer;
  const int pitch = heads.pitch();
  // Owned and other rows: queries or keys; their partners: dy or values.
  float* own = cuda::dynamic_shared<float>();
  float* own_partners = own + kTile * pitch;
  float* others = own_partners + kTile * pitch;
  float* other_partners = others + kTile * pitch;
  float* weights = other_partners + kTile * pitch;
  float* log_sum_exp = weights + kTile * (kTile + kPad);
  float* mean = log_sum_exp + kTile;
  const int64_t stride = 3 * heads.C;
  const T* qkv = arguments.qkv + heads.query();
  const auto load_queries = [&](int64_t begin, float* rows, float* partners) {
    const int64_t count = heads.T - begin;
    const T* dy = arguments.dy + heads.out() + begin * heads.C;
    const T* out = arguments.out + heads.out() + begin * heads.C;
    load_rows(qkv + begin * stride, stride, count, kTile, heads, rows);
    load_rows(dy, heads.C, count, kTile, heads, partners);
    for (int i = threadIdx.x / kWarp; i < kTile; i += kThreads / kWarp) {
      // Softmax's gradient subtracts the mean of the weights' gradients, which equals dy · out.
      float sum = 0.0F;
      for (int d = threadIdx.x % kWarp; d < heads.D && i < count; d += kWarp) {
        sum = fmaf(load(dy[i * heads.C + d]), load(out[i * heads.C + d]), sum);
      }
      sum = cuda::warp_sum(sum);
      if (threadIdx.x % kWarp == 0) {
        mean[i] = sum;
        log_sum_exp[i] = i < count ? arguments.log_sum_exp[heads.row() + begin + i] : 0.0F;
      }
    }
  };
  const auto load_keys = [&](int64_t begin, float* rows, float* partners) {
    const T* source = qkv + begin * stride + heads.C;
    load_rows(source, stride, heads.T - begin, kTile, heads, rows);
    load_rows(source + heads.C, stride, heads.T - begin, kTile, heads, partners);
  };
  // The longest first.
  const int64_t begin =
      static_cast<int64_t>(kOfKeys ? blockIdx.y : gridDim.y - 1 - blockIdx.y) * kTile;
  if constexpr (kOfKeys) {
    load_keys(begin, own, own_partners);
  } else {
    load_queries(begin, own, own_partners);
  }
  RowSums<kPer, kQuads> sums;
  RowSums<kPer, kQuads> partner_sums;
  const int64_t first = kOfKeys && heads.causal ? begin : 0;
  const int64_t end = kOfKeys ? heads.T : heads.end_of_keys(begin);
  for (int64_t other = first; other < end; other += kTile) {
    __syncthreads();  // the previous tile has been used
    if constexpr (kOfKeys) {
      load_queries(other, others, other_partners);
    } else {
      load_keys(other, others, other_partners);
    }
    __syncthreads();
    float numbers[kPer][kPer];
    float dscores[kPer][kPer];
    multiply_rows(own, others, pitch, numbers);
    multiply_rows(own_partners, other_partners, pitch, dscores);
    for (int i = 0; i < kPer; ++i) {
      for (int j = 0; j < kPer; ++j) {
        const int row = own_row() * kPer + i;
        const int column = own_column() + j * kSide;
        const int query = kOfKeys ? column : row;
        const bool seen = kOfKeys ? heads.sees(other + column, begin + row)
                                  : heads.sees(begin + row, other + column);
        // Rows beyond the last query have dy, mean and log_sum_exp 0, and so add nothing.
        const float weight = seen ? expf(heads.scale * numbers[i][j] - log_sum_exp[query]) : 0.0F;
        dscores[i][j] = heads.scale * weight * (dscores[i][j] - mean[query]);
        weights[row * (kTile + kPad) + column] = kOfKeys ? weight : dscores[i][j];
      }
    }
    __syncthreads();
    if constexpr (kOfKeys) {
      partner_sums.add_product(weights, other_partners, heads);
      __syncthreads();
      for (int i = 0; i < kPer; ++i) {
        for (int j = 0; j < kPer; ++j) {
          weights[(own_row() * kPer + i) * (kTile + kPad) + own_column() + j * kSide] =
              dscores[i][j];
        }
      }
      __syncthreads();
    }
    sums.add_product(weights, others, heads);
  }
  T* dqkv = arguments.dqkv + heads.query() + begin * stride + (kOfKeys ? heads.C : 0);
  sums.store_rows(dqkv, stride, heads.T - begin, heads, arguments.accumulate);
  if constexpr (kOfKeys) {
    partner_sums.store_rows(dqkv + heads.C, stride, heads.T - begin, heads, arguments.accumulate);
  }
}

/// Launches `kernel` with a block for each tile of each head; `row_tiles` tiles of rows, one of
/// weights and `more` floats a position are in shared memory.
template <int kPer, typename... Parameters, typename... Arguments>
void launch_tiles(Stream& stream, const Heads& heads, int row_tiles, int more,
                  void (*kernel)(Parameters...), Arguments... arguments) {
  constexpr int kTile = kSide * kPer;
  const size_t bytes = kTile * (row_tiles * heads.pitch() + (kTile + kPad) + more) * sizeof(float);
  cuda::check(
      cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                           cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
      "reserving shared memory for attention");
  const dim3 grid(static_cast<unsigned>(heads.B * heads.H),
                  static_cast<unsigned>((heads.T + kTile - 1) / kTile));
  cuda::launch(kernel, grid, dim3(kThreads), bytes, cuda::handle_of(stream), arguments...);
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
  cuda::with_device_type(dtype, [&]<typename T>(T) {
    if (heads.D <= 4 * kSide) {
      body.template operator()<T, 4, 1>();
    } else {
      body.template operator()<T, 2, 2>();
    }
  });
}

/// Of dqkv; 16-byte aligned memory can follow.
int64_t gradient_bytes(const AttentionCall& call) {
  const int64_t bytes =
      call.samples * call.positions * 3 * call.heads * call.head_size * size_of(call.dtype);
  return (bytes + 15) / 16 * 16;
}

}  // namespace

int64_t CudaBackend::attention_workspace(const AttentionCall& call) const {
  if (cudnn_attention_ == nullptr || call.is_empty()) {
    return 0;
  }
  return cudnn_attention_->workspace_bytes(call) + (call.accumulate ? gradient_bytes(call) : 0);
}

void CudaBackend::attention_forward(Stream& stream, const Tensor& qkv, int64_t num_heads,
                                    AttentionMask mask, const Tensor& out,
                                    const Tensor& log_sum_exp) {
  const AttentionCall call = AttentionCall::forward(qkv, num_heads, mask);
  if (cudnn_attention_ != nullptr && !call.is_empty()) {
    const Tensor workspace = Tensor::workspace(out.context(), attention_workspace(call));
    cudnn_attention_->launch(cuda::handle_of(stream), call,
                             {.qkv = qkv.raw(), .out = out.raw(), .log_sum_exp = log_sum_exp.raw()},
                             workspace.raw());
    return;
  }
  const Heads heads(qkv, num_heads, mask);
  with_tiles(heads, qkv.dtype(), [&]<typename T, int kPer, int kQuads>() {
    launch_tiles<kPer>(stream, heads, 3, 0, forward_kernel<kPer, kQuads, T>, qkv.data<T>(), heads,
                       out.data<T>(), log_sum_exp.data<float>());
  });
}

void CudaBackend::attention_last(Stream& stream, const Tensor& qkv, int64_t num_heads,
                                 const Tensor& out) {
  const Heads heads(qkv, num_heads, AttentionMask::kCausal);
  with_tiles(heads, qkv.dtype(), [&]<typename T, int, int>() {
    cuda::launch(last_kernel<T>, dim3(static_cast<unsigned>(heads.B * heads.H)), dim3(kThreads), 0,
                 cuda::handle_of(stream), qkv.data<T>(), heads, out.data<T>());
  });
}

void CudaBackend::attention_backward(Stream& stream, const Tensor& qkv, const Tensor& out,
                                     const Tensor& log_sum_exp, const Tensor& dy, int64_t num_heads,
                                     AttentionMask mask, const Tensor& dqkv, bool accumulate) {
  const AttentionCall call = AttentionCall::backward(qkv, num_heads, mask, accumulate);
  if (cudnn_attention_ != nullptr && !call.is_empty()) {
    // What is to be added is computed in the workspace, rounded, and added by a kernel of its own.
    const Tensor workspace = Tensor::workspace(out.context(), attention_workspace(call));
    const Tensor gradient =
        accumulate ? workspace.reinterpret(qkv.dtype()).range(0, dqkv.numel()) : dqkv;
    cudnn_attention_->launch(cuda::handle_of(stream), call,
                             {.qkv = qkv.raw(),
                              .out = out.raw(),
                              .log_sum_exp = log_sum_exp.raw(),
                              .dy = dy.raw(),
                              .dqkv = gradient.raw()},
                             workspace.raw() + (accumulate ? gradient_bytes(call) : 0));
    if (accumulate) {
      this->accumulate(stream, gradient, dqkv);
    }
    return;
  }
  const Heads heads(qkv, num_heads, mask);
  with_tiles(heads, qkv.dtype(), [&]<typename T, int kPer, int kQuads>() {
    const BackwardArguments<T> arguments = {
        qkv.data<T>(), out.data<T>(),  log_sum_exp.data<float>(),
        dy.data<T>(),  dqkv.data<T>(), accumulate};
    launch_tiles<kPer>(stream, heads, 4, 2, backward_kernel<false, kPer, kQuads, T>, arguments,
                       heads);
    launch_tiles<kPer>(stream, heads, 4, 2, backward_kernel<true, kPer, kQuads, T>, arguments,
                       heads);
  });
}

}  // namespace zerolab

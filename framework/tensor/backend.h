#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "framework/core/stream.h"
#include "framework/memory/allocator.h"
#include "framework/tensor/tensor.h"

namespace zerolab {

struct AttentionCall;
struct DropoutKey;
struct LinearCall;
struct StridedCopy;
struct UpdateRule;
enum class AttentionMask : uint8_t;
enum class WeightLayout : uint8_t;

/// The kernels of one kind of device. Everything that touches device memory is here or in a
/// communicator.
///
/// Contract of every kernel: shapes and dtypes were checked by the caller (`ops/`); work is put on
/// `stream` and may run later; tensors are read and written as whole contiguous ranges; all
/// floating tensors of a call share one dtype T; outputs do not alias inputs unless a line says so.
/// Where T is bf16 or fp16, arithmetic is fp32 and a result is rounded once, when it is stored;
/// statistics (mean, rstd, log_sum_exp) and losses with their gradients (dloss) are fp32; gradients
/// of parameters (dweight, dbias, dtable, sum_rows' out) may be T or fp32.
/// `accumulate`: add to the output instead of overwriting it, so that no zeroing pass is needed.
/// Element bits do not depend on how a caller cuts spans, nor on the number of threads (matrix
/// products aside: there, at a fixed number of threads).
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// False in dry runs: tensors have no memory, so that there is no use in preparing values for
  /// them.
  virtual bool computes() const { return true; }

  // --- device ---
  virtual std::unique_ptr<Allocator> make_allocator(MemoryLedger& ledger, bool poison) const = 0;
  /// A rank's streams. `mode` and `lazy_seed` are for the host's.
  virtual std::unique_ptr<RankStreams> make_streams(StreamMode mode, uint64_t lazy_seed) const = 0;
  /// Called once in each rank's host thread, before all else: chooses the rank's device, and how
  /// many OpenMP threads its kernels have.
  virtual void bind_thread(int rank, int threads) const = 0;
  virtual void copy_from_host(Stream& stream, std::span<const std::byte> source,
                              const Tensor& out) = 0;
  /// At once: the caller has synchronised.
  virtual void copy_to_host(const Tensor& source, std::span<std::byte> out) = 0;

  // --- elementwise ---
  virtual void fill(Stream& stream, const Tensor& out, double value) = 0;
  /// Between equal dtypes (any) the same bytes; between floating dtypes a conversion, rounded once.
  virtual void copy(Stream& stream, const Tensor& source, const Tensor& out) = 0;
  /// out += source, of any two floating dtypes.
  virtual void accumulate(Stream& stream, const Tensor& source, const Tensor& out) = 0;
  /// out[i] = a[i] + b[i mod b.numel]; out may be a.
  virtual void add(Stream& stream, const Tensor& a, const Tensor& b, const Tensor& out) = 0;
  /// out = a * factor (+ out); out may be a.
  virtual void scale(Stream& stream, const Tensor& a, double factor, const Tensor& out,
                     bool accumulate) = 0;
  virtual void relu_forward(Stream& stream, const Tensor& x, const Tensor& out) = 0;
  /// dx may be dy.
  virtual void relu_backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx,
                             bool accumulate) = 0;
  /// GELU with tanh (Hendrycks & Gimpel 2016), as GPT-2's. out may be x.
  virtual void gelu_forward(Stream& stream, const Tensor& x, const Tensor& out) = 0;
  /// dx may be dy.
  virtual void gelu_backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx,
                             bool accumulate) = 0;
  /// SiLU: x / (1 + e^-x) (Elfwing et al. 2017). out may be x.
  virtual void silu_forward(Stream& stream, const Tensor& x, const Tensor& out) = 0;
  /// dx may be dy.
  virtual void silu_backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx,
                             bool accumulate) = 0;
  /// out[i] = x[i] / (1 - p) where kept, else 0: forward and backward alike; out may be x. Element
  /// i of sample s is kept when uniform_from_bits(philox(seed ^ (op * 0x9E3779B97F4A7C15), s, i /
  /// 4)[i % 4]) >= p.
  virtual void dropout(Stream& stream, const Tensor& x, const DropoutKey& key, const Tensor& out,
                       bool accumulate) = 0;

  // --- linear: x [M, K], weight [K, N] or [N, K], bias [N] or undefined, out [M, N] ---
  virtual void linear_forward(Stream& stream, const Tensor& x, const Tensor& weight,
                              WeightLayout layout, const Tensor& bias, const Tensor& out) = 0;
  /// pre_activation = x · weight + bias, out = its GELU: of the rounded numbers, or of those that
  /// they were rounded from. `pre_activation` [M, N] may be undefined, where no backward needs it.
  /// Takes the workspace of `linear_forward`, which it consists of with `gelu_forward` unless a
  /// backend has one kernel for both.
  virtual void linear_gelu_forward(Stream& stream, const Tensor& x, const Tensor& weight,
                                   WeightLayout layout, const Tensor& bias,
                                   const Tensor& pre_activation, const Tensor& out);
  /// dx [M, K] (+)= dy [M, N] · weightᵀ.
  virtual void linear_backward_input(Stream& stream, const Tensor& dy, const Tensor& weight,
                                     WeightLayout layout, const Tensor& dx, bool accumulate) = 0;
  /// dweight (+)= xᵀ · dy, in the weight's layout.
  virtual void linear_backward_weight(Stream& stream, const Tensor& x, const Tensor& dy,
                                      WeightLayout layout, const Tensor& dweight,
                                      bool accumulate) = 0;
  /// out [N] (+)= sum over rows of x [M, N], added in an order that depends on M alone: the
  /// gradient of a bias or of positions.
  virtual void sum_rows(Stream& stream, const Tensor& x, const Tensor& out, bool accumulate) = 0;

  // --- layer norm over the last extent C; weight [C], bias [C] or undefined; mean and rstd [rows]
  // ---
  virtual void layer_norm_forward(Stream& stream, const Tensor& x, const Tensor& weight,
                                  const Tensor& bias, double epsilon, const Tensor& out,
                                  const Tensor& mean, const Tensor& rstd) = 0;
  /// sum = a + b, rounded; out = the layer norm of that sum. Bits are those of `add` and
  /// `layer_norm_forward`, which it consists of unless a backend has one kernel for both. a, b, sum
  /// and out have one shape.
  virtual void add_layer_norm_forward(Stream& stream, const Tensor& a, const Tensor& b,
                                      const Tensor& weight, const Tensor& bias, double epsilon,
                                      const Tensor& sum, const Tensor& out, const Tensor& mean,
                                      const Tensor& rstd);
  virtual void layer_norm_backward_input(Stream& stream, const Tensor& x, const Tensor& weight,
                                         const Tensor& mean, const Tensor& rstd, const Tensor& dy,
                                         const Tensor& dx, bool accumulate) = 0;
  /// dweight and dbias [C]; either may be undefined. Rows are added in an order that depends on
  /// their number alone.
  virtual void layer_norm_backward_parameters(Stream& stream, const Tensor& x, const Tensor& mean,
                                              const Tensor& rstd, const Tensor& dy,
                                              const Tensor& dweight, bool accumulate_weight,
                                              const Tensor& dbias, bool accumulate_bias) = 0;

  // --- softmax over the last extent ---
  virtual void softmax_forward(Stream& stream, const Tensor& x, const Tensor& out) = 0;
  /// `out` is the forward's result.
  virtual void softmax_backward(Stream& stream, const Tensor& out, const Tensor& dy,
                                const Tensor& dx, bool accumulate) = 0;

  // --- positions: x [B, T, C], out [B, C] ---
  /// The mean over T, added in order of positions.
  virtual void mean_positions(Stream& stream, const Tensor& x, const Tensor& out) = 0;

  // --- other orders ---
  /// out (+)= source at the places that `copy` names: no element of out twice, and the others stay.
  virtual void copy_strided(Stream& stream, const Tensor& source, const StridedCopy& copy,
                            const Tensor& out, bool accumulate) = 0;

  // --- self-attention: qkv [B, T, 3C] (q, k, v side by side), out [B, T, C], heads of
  // C/num_heads,
  //     scores scaled by 1/sqrt(C/num_heads); log_sum_exp [B, num_heads, T] ---
  virtual void attention_forward(Stream& stream, const Tensor& qkv, int64_t num_heads,
                                 AttentionMask mask, const Tensor& out,
                                 const Tensor& log_sum_exp) = 0;
  virtual void attention_backward(Stream& stream, const Tensor& qkv, const Tensor& out,
                                  const Tensor& log_sum_exp, const Tensor& dy, int64_t num_heads,
                                  AttentionMask mask, const Tensor& dqkv, bool accumulate) = 0;
  /// The last position's row of `attention_forward`'s out alone, T at least 1: out [B, 1, C].
  virtual void attention_last(Stream& stream, const Tensor& qkv, int64_t num_heads,
                              const Tensor& out) = 0;

  // --- embedding: indices [M] int32 within [0, V), table [V, C], out [M, C] ---
  virtual void embedding_forward(Stream& stream, const Tensor& indices, const Tensor& table,
                                 const Tensor& out) = 0;
  /// dtable (+)= rows of dy, added in index order; without `accumulate` rows that no index names
  /// become 0.
  virtual void embedding_backward(Stream& stream, const Tensor& indices, const Tensor& dy,
                                  const Tensor& dtable, bool accumulate) = 0;

  // --- losses ---
  /// logits [M, V], targets [M] int32; log_sum_exp [M]; loss: one element, the mean over rows
  /// (summed in fp64, in an order that depends on M alone).
  virtual void cross_entropy_forward(Stream& stream, const Tensor& logits, const Tensor& targets,
                                     const Tensor& log_sum_exp, const Tensor& loss) = 0;
  /// Overwrites the logits with their gradient: (softmax - onehot) * dloss / M. dloss has one
  /// element.
  virtual void cross_entropy_backward(Stream& stream, const Tensor& dloss, const Tensor& targets,
                                      const Tensor& log_sum_exp, const Tensor& logits) = 0;
  /// loss = mean of (prediction - target)^2 (summed in fp64, in an order that depends on the number
  /// of elements alone).
  virtual void mse_forward(Stream& stream, const Tensor& prediction, const Tensor& target,
                           const Tensor& loss) = 0;
  virtual void mse_backward(Stream& stream, const Tensor& dloss, const Tensor& prediction,
                            const Tensor& target, const Tensor& dprediction, bool accumulate) = 0;

  // --- optimizer steps ---
  /// Updates each element of `parameter` and of `states`, which are flat, fp32 and in the order of
  /// the rule's names, by itself. The gradient may be of any floating dtype, and is multiplied by
  /// `gradient_scale` first.
  virtual void update(Stream& stream, const UpdateRule& rule, double gradient_scale,
                      const Tensor& gradient, const Tensor& parameter,
                      std::span<const Tensor> states) = 0;

  // --- gradient statistics (core/exact_sum.h) ---
  /// Adds the squares of `gradient` (flat, of any floating dtype) to `statistics` (int64,
  /// `kStatisticsWords`): each block of `block` elements is summed in fp64 in element order, and
  /// the block sums are added exactly. A non-finite element at i makes the first-non-finite word
  /// min(itself, base_index + i), its kind word follow, and its block is left out.
  virtual void gradient_statistics(Stream& stream, const Tensor& gradient, int64_t block,
                                   int64_t base_index, const Tensor& statistics) = 0;

  // --- collectives between ranks that share memory (comm/local.h); at once in the calling thread
  // ---
  /// Any memory of the device; both may be of another rank.
  virtual void copy_at_once(std::span<const std::byte> source, std::byte* out) = 0;
  /// out[i] = (sources[0][i] + sources[1][i] + … in this order) / divisor, of fp32, bf16 or fp16
  /// elements, computed in fp32 and rounded once. out may be one of the sources.
  virtual void reduce_in_order(std::span<const std::byte* const> sources, DType dtype,
                               double divisor, std::span<std::byte> out) = 0;

  /// Bytes that a linear kernel takes from the ledger's workspace while it is launched. The meta
  /// backend asks the backend that it stands for.
  virtual int64_t linear_workspace(const LinearCall& /*call*/) const { return 0; }
  /// The same of `sum_rows` and `layer_norm_backward_parameters`, which add up [rows, cols].
  virtual int64_t sum_workspace(int64_t /*rows*/, int64_t /*cols*/) const { return 0; }
  /// The same of an attention kernel.
  virtual int64_t attention_workspace(const AttentionCall& /*call*/) const { return 0; }
};

}  // namespace zerolab

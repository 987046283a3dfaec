#include "framework/meta/backend.h"

#include <algorithm>

#include "framework/core/clock.h"
#include "framework/core/modelled_stream.h"
#include "framework/kernels/attention_call.h"
#include "framework/kernels/linear_call.h"
#include "framework/kernels/strided_copy.h"
#include "framework/tensor/rank_context.h"

namespace zerolab {
namespace {

template <typename... Tensors>
int64_t bytes_of(const Tensors&... tensors) {
  return ((tensors.defined() ? tensors.bytes() : 0) + ...);
}

class MetaBackend final : public Backend {
 public:
  MetaBackend(const Backend& imitated, const ModelledSpeed& speed)
      : imitated_(imitated), speed_(speed) {}
  std::string_view name() const override { return "meta"; }
  bool computes() const override { return false; }

  std::unique_ptr<Allocator> make_allocator(MemoryLedger& ledger, bool /*poison*/) const override {
    return std::make_unique<MetaAllocator>(ledger);
  }
  std::unique_ptr<RankStreams> make_streams(StreamMode, uint64_t) const override {
    return make_modelled_streams();
  }
  void bind_thread(int rank, int threads) const override { imitated_.bind_thread(rank, threads); }
  void copy_from_host(Stream&, std::span<const std::byte>, const Tensor&) override {}
  void copy_to_host(const Tensor&, std::span<std::byte> out) override {
    std::fill(out.begin(), out.end(), std::byte{0});
  }

  void fill(Stream& stream, const Tensor& out, double) override { pass(stream, out.bytes()); }
  void copy(Stream& stream, const Tensor& source, const Tensor& out) override {
    pass(stream, bytes_of(source, out));
  }
  void accumulate(Stream& stream, const Tensor& source, const Tensor& out) override {
    pass(stream, bytes_of(source, out, out));
  }
  void add(Stream& stream, const Tensor& a, const Tensor& b, const Tensor& out) override {
    pass(stream, bytes_of(a, b, out));
  }
  void scale(Stream& stream, const Tensor& a, double, const Tensor& out, bool accumulate) override {
    pass(stream, bytes_of(a) + written(out, accumulate));
  }
  void relu_forward(Stream& stream, const Tensor& x, const Tensor& out) override {
    pass(stream, bytes_of(x, out));
  }
  void relu_backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx,
                     bool accumulate) override {
    pass(stream, bytes_of(x, dy) + written(dx, accumulate));
  }
  void gelu_forward(Stream& stream, const Tensor& x, const Tensor& out) override {
    pass(stream, bytes_of(x, out));
  }
  void gelu_backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx,
                     bool accumulate) override {
    pass(stream, bytes_of(x, dy) + written(dx, accumulate));
  }
  void silu_forward(Stream& stream, const Tensor& x, const Tensor& out) override {
    pass(stream, bytes_of(x, out));
  }
  void silu_backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx,
                     bool accumulate) override {
    pass(stream, bytes_of(x, dy) + written(dx, accumulate));
  }
  void dropout(Stream& stream, const Tensor& x, const DropoutKey&, const Tensor& out,
               bool accumulate) override {
    pass(stream, bytes_of(x) + written(out, accumulate));
  }

  void linear_forward(Stream& stream, const Tensor& x, const Tensor& weight, WeightLayout layout,
                      const Tensor& bias, const Tensor& out) override {
    const LinearCall call = LinearCall::forward(x, layout, bias, out);
    multiply(stream, out.context(), call, bytes_of(x, weight, bias, out));
  }
  void linear_backward_input(Stream& stream, const Tensor& dy, const Tensor& weight,
                             WeightLayout layout, const Tensor& dx, bool accumulate) override {
    const LinearCall call = LinearCall::backward_input(dy, layout, dx, accumulate);
    multiply(stream, dx.context(), call, bytes_of(dy, weight) + written(dx, accumulate));
  }
  void linear_backward_weight(Stream& stream, const Tensor& x, const Tensor& dy,
                              WeightLayout layout, const Tensor& dweight,
                              bool accumulate) override {
    const LinearCall call = LinearCall::backward_weight(x, dy, layout, dweight, accumulate);
    multiply(stream, dweight.context(), call, bytes_of(x, dy) + written(dweight, accumulate));
  }
  void sum_rows(Stream& stream, const Tensor& x, const Tensor& out, bool accumulate) override {
    if (out.numel() > 0) {
      Tensor::workspace(out.context(), sum_workspace(x.numel() / out.numel(), out.numel()));
    }
    pass(stream, bytes_of(x) + written(out, accumulate));
  }

  void layer_norm_forward(Stream& stream, const Tensor& x, const Tensor&, const Tensor&, double,
                          const Tensor& out, const Tensor&, const Tensor&) override {
    pass(stream, bytes_of(x, out));
  }
  void layer_norm_backward_input(Stream& stream, const Tensor& x, const Tensor&, const Tensor&,
                                 const Tensor&, const Tensor& dy, const Tensor& dx,
                                 bool accumulate) override {
    pass(stream, bytes_of(x, dy) + written(dx, accumulate));
  }
  void layer_norm_backward_parameters(Stream& stream, const Tensor& x, const Tensor&, const Tensor&,
                                      const Tensor& dy, const Tensor&, bool, const Tensor&,
                                      bool) override {
    Tensor::workspace(x.context(), sum_workspace(x.shape().rows(), x.shape().cols()));
    pass(stream, bytes_of(x, dy));
  }
  void softmax_forward(Stream& stream, const Tensor& x, const Tensor& out) override {
    pass(stream, bytes_of(x, out));
  }
  void softmax_backward(Stream& stream, const Tensor& out, const Tensor& dy, const Tensor& dx,
                        bool accumulate) override {
    pass(stream, bytes_of(out, dy) + written(dx, accumulate));
  }
  void mean_positions(Stream& stream, const Tensor& x, const Tensor& out) override {
    pass(stream, bytes_of(x, out));
  }
  void copy_strided(Stream& stream, const Tensor&, const StridedCopy& copy, const Tensor& out,
                    bool accumulate) override {
    pass(stream, (accumulate ? 3 : 2) * copy.numel() * size_of(out.dtype()));
  }
  void attention_forward(Stream& stream, const Tensor& qkv, int64_t num_heads, AttentionMask mask,
                         const Tensor& out, const Tensor&) override {
    constexpr int kProducts = 2;  // scores and weighted values
    attend(stream, qkv, AttentionCall::forward(qkv, num_heads, mask), kProducts,
           bytes_of(qkv, out));
  }
  void attention_backward(Stream& stream, const Tensor& qkv, const Tensor& out, const Tensor&,
                          const Tensor& dy, int64_t num_heads, AttentionMask mask,
                          const Tensor& dqkv, bool accumulate) override {
    constexpr int kProducts = 5;  // scores again, and the gradients of scores, q, k and v
    attend(stream, qkv, AttentionCall::backward(qkv, num_heads, mask, accumulate), kProducts,
           bytes_of(qkv, out, dy) + written(dqkv, accumulate));
  }
  void attention_last(Stream& stream, const Tensor& qkv, int64_t, const Tensor& out) override {
    pass(stream, bytes_of(qkv, out));
  }
  void embedding_forward(Stream& stream, const Tensor&, const Tensor&, const Tensor& out) override {
    pass(stream, bytes_of(out, out));
  }
  void embedding_backward(Stream& stream, const Tensor&, const Tensor& dy, const Tensor& dtable,
                          bool accumulate) override {
    // The rows that dy names are read and written; without `accumulate` the others are cleared.
    pass(stream, bytes_of(dy, dy, dy) + (accumulate ? 0 : dtable.bytes()));
  }

  void cross_entropy_forward(Stream& stream, const Tensor& logits, const Tensor&, const Tensor&,
                             const Tensor&) override {
    pass(stream, logits.bytes());
  }
  void cross_entropy_backward(Stream& stream, const Tensor&, const Tensor&, const Tensor&,
                              const Tensor& logits) override {
    pass(stream, bytes_of(logits, logits));
  }
  void mse_forward(Stream& stream, const Tensor& prediction, const Tensor& target,
                   const Tensor&) override {
    pass(stream, bytes_of(prediction, target));
  }
  void mse_backward(Stream& stream, const Tensor&, const Tensor& prediction, const Tensor& target,
                    const Tensor& dprediction, bool accumulate) override {
    pass(stream, bytes_of(prediction, target) + written(dprediction, accumulate));
  }

  void update(Stream& stream, const UpdateRule&, double, const Tensor& gradient,
              const Tensor& parameter, std::span<const Tensor> states) override {
    int64_t updated = parameter.bytes();
    for (const Tensor& state : states) {
      updated += state.bytes();
    }
    pass(stream, gradient.bytes() + 2 * updated);
  }
  void gradient_statistics(Stream& stream, const Tensor& gradient, int64_t, int64_t,
                           const Tensor&) override {
    pass(stream, gradient.bytes());
  }
  void copy_at_once(std::span<const std::byte>, std::byte*) override {}
  void reduce_in_order(std::span<const std::byte* const>, DType, double,
                       std::span<std::byte>) override {}

  int64_t linear_workspace(const LinearCall& call) const override {
    return imitated_.linear_workspace(call);
  }
  int64_t sum_workspace(int64_t rows, int64_t cols) const override {
    return imitated_.sum_workspace(rows, cols);
  }
  int64_t attention_workspace(const AttentionCall& call) const override {
    return imitated_.attention_workspace(call);
  }

 private:
  static int64_t written(const Tensor& out, bool accumulate) {
    return (accumulate ? 2 : 1) * out.bytes();
  }
  static double seconds(double amount, double rate) { return rate > 0.0 ? amount / rate : 0.0; }
  void pass(Stream& stream, int64_t bytes) const { take(stream, 0.0, bytes); }
  void take(Stream& stream, double flops, int64_t bytes) const {
    static_cast<ModelledStream&>(stream).advance(
        clock_time(std::max(seconds(flops, speed_.flops_per_s),
                            seconds(static_cast<double>(bytes), speed_.bytes_per_s))));
  }
  void multiply(Stream& stream, RankContext& context, const LinearCall& call, int64_t bytes) const {
    Tensor::workspace(context, linear_workspace(call));
    take(stream, 2.0 * static_cast<double>(call.rows) * static_cast<double>(call.in * call.out),
         bytes);
  }
  /// `products` of T x T by the heads, of which causality leaves half.
  void attend(Stream& stream, const Tensor& qkv, const AttentionCall& call, int products,
              int64_t bytes) const {
    Tensor::workspace(qkv.context(), attention_workspace(call));
    const auto positions = static_cast<double>(call.positions);
    const double flops_per_pair = call.mask == AttentionMask::kCausal ? 1.0 : 2.0;
    take(stream,
         products * flops_per_pair * positions * positions *
             static_cast<double>(call.samples * call.heads * call.head_size),
         bytes);
  }

  const Backend& imitated_;
  const ModelledSpeed speed_;
};

}  // namespace

std::unique_ptr<Backend> make_meta_backend(const Backend& imitated, const ModelledSpeed& speed) {
  return std::make_unique<MetaBackend>(imitated, speed);
}

}  // namespace zerolab

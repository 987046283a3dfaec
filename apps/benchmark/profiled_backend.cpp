#include "apps/benchmark/profiled_backend.h"

#include <chrono>

#include "framework/kernels/attention_call.h"
#include "framework/kernels/linear_call.h"
#include "framework/kernels/strided_copy.h"
#include "framework/update_rules/update_rule.h"

namespace zerolab::bench {
namespace {

double of(const Tensor& tensor) {
  return tensor.defined() ? static_cast<double>(tensor.bytes()) : 0.0;
}

/// Bytes of an output: read as well when it is added to.
double written(const Tensor& out, bool accumulate) { return of(out) * (accumulate ? 2 : 1); }

class ProfiledBackend final : public Backend {
 public:
  ProfiledBackend(Backend& inner, OpProfile& profile) : inner_(inner), profile_(profile) {}

  std::string_view name() const override { return inner_.name(); }
  bool computes() const override { return inner_.computes(); }
  std::unique_ptr<Allocator> make_allocator(MemoryLedger& ledger, bool poison) const override {
    return inner_.make_allocator(ledger, poison);
  }
  std::unique_ptr<RankStreams> make_streams(StreamMode mode, uint64_t lazy_seed) const override {
    return inner_.make_streams(mode, lazy_seed);
  }
  void bind_thread(int rank, int threads) const override { inner_.bind_thread(rank, threads); }
  void copy_to_host(const Tensor& source, std::span<std::byte> out) override {
    inner_.copy_to_host(source, out);
  }
  /// Part of a collective, which its communicator times.
  void copy_at_once(std::span<const std::byte> source, std::byte* out) override {
    inner_.copy_at_once(source, out);
  }
  void reduce_in_order(std::span<const std::byte* const> sources, DType dtype, double divisor,
                       std::span<std::byte> out) override {
    inner_.reduce_in_order(sources, dtype, divisor, out);
  }
  int64_t linear_workspace(const LinearCall& call) const override {
    return inner_.linear_workspace(call);
  }
  int64_t sum_workspace(int64_t rows, int64_t cols) const override {
    return inner_.sum_workspace(rows, cols);
  }
  int64_t attention_workspace(const AttentionCall& call) const override {
    return inner_.attention_workspace(call);
  }

  // Kernels of many sizes that are one row of the table together.
  void copy_from_host(Stream& stream, std::span<const std::byte> source,
                      const Tensor& out) override {
    timed({"copy from host"}, 0, 2 * of(out), [&] { inner_.copy_from_host(stream, source, out); });
  }
  void fill(Stream& stream, const Tensor& out, double value) override {
    timed({"fill"}, 0, of(out), [&] { inner_.fill(stream, out, value); });
  }
  void copy(Stream& stream, const Tensor& source, const Tensor& out) override {
    timed({"copy"}, 0, 2 * of(out), [&] { inner_.copy(stream, source, out); });
  }
  void accumulate(Stream& stream, const Tensor& source, const Tensor& out) override {
    timed({"accumulate"}, 0, 3 * of(out), [&] { inner_.accumulate(stream, source, out); });
  }
  void update(Stream& stream, const UpdateRule& rule, double gradient_scale, const Tensor& gradient,
              const Tensor& parameter, std::span<const Tensor> states) override {
    const std::string_view name =
        std::visit([]<typename Rule>(const Rule&) { return Rule::kName; }, rule.rule);
    const auto passes = static_cast<double>(3 + 2 * states.size());
    timed({name}, 0, passes * of(parameter),
          [&] { inner_.update(stream, rule, gradient_scale, gradient, parameter, states); });
  }
  void gradient_statistics(Stream& stream, const Tensor& gradient, int64_t block,
                           int64_t base_index, const Tensor& statistics) override {
    timed({"gradient norm"}, 0, of(gradient),
          [&] { inner_.gradient_statistics(stream, gradient, block, base_index, statistics); });
  }

  // Elementwise kernels, by the shape of their output.
  void add(Stream& stream, const Tensor& a, const Tensor& b, const Tensor& out) override {
    timed(by_rows("add", out), 0, of(a) + of(b) + of(out), [&] { inner_.add(stream, a, b, out); });
  }
  void scale(Stream& stream, const Tensor& a, double factor, const Tensor& out,
             bool accumulate) override {
    timed(by_rows("scale", out), 0, of(a) + written(out, accumulate),
          [&] { inner_.scale(stream, a, factor, out, accumulate); });
  }
  void relu_forward(Stream& stream, const Tensor& x, const Tensor& out) override {
    timed(by_rows("relu forward", out), 0, of(x) + of(out),
          [&] { inner_.relu_forward(stream, x, out); });
  }
  void relu_backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx,
                     bool accumulate) override {
    timed(by_rows("relu backward", dx), 0, of(x) + of(dy) + written(dx, accumulate),
          [&] { inner_.relu_backward(stream, x, dy, dx, accumulate); });
  }
  void gelu_forward(Stream& stream, const Tensor& x, const Tensor& out) override {
    timed(by_rows("gelu forward", out), 0, of(x) + of(out),
          [&] { inner_.gelu_forward(stream, x, out); });
  }
  void gelu_backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx,
                     bool accumulate) override {
    timed(by_rows("gelu backward", dx), 0, of(x) + of(dy) + written(dx, accumulate),
          [&] { inner_.gelu_backward(stream, x, dy, dx, accumulate); });
  }
  void silu_forward(Stream& stream, const Tensor& x, const Tensor& out) override {
    timed(by_rows("silu forward", out), 0, of(x) + of(out),
          [&] { inner_.silu_forward(stream, x, out); });
  }
  void silu_backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx,
                     bool accumulate) override {
    timed(by_rows("silu backward", dx), 0, of(x) + of(dy) + written(dx, accumulate),
          [&] { inner_.silu_backward(stream, x, dy, dx, accumulate); });
  }
  void softmax_forward(Stream& stream, const Tensor& x, const Tensor& out) override {
    timed(by_rows("softmax forward", out), 0, of(x) + of(out),
          [&] { inner_.softmax_forward(stream, x, out); });
  }
  void softmax_backward(Stream& stream, const Tensor& out, const Tensor& dy, const Tensor& dx,
                        bool accumulate) override {
    timed(by_rows("softmax backward", dx), 0, of(out) + of(dy) + written(dx, accumulate),
          [&] { inner_.softmax_backward(stream, out, dy, dx, accumulate); });
  }
  void mean_positions(Stream& stream, const Tensor& x, const Tensor& out) override {
    timed(by_rows("mean of positions", x), 0, of(x) + of(out),
          [&] { inner_.mean_positions(stream, x, out); });
  }
  void copy_strided(Stream& stream, const Tensor& source, const StridedCopy& copy,
                    const Tensor& out, bool accumulate) override {
    const auto bytes = static_cast<double>(copy.numel() * size_of(out.dtype()));
    timed({"strided copy"}, 0, (accumulate ? 3 : 2) * bytes,
          [&] { inner_.copy_strided(stream, source, copy, out, accumulate); });
  }
  void dropout(Stream& stream, const Tensor& x, const DropoutKey& key, const Tensor& out,
               bool accumulate) override {
    timed(by_rows("dropout", out), 0, of(x) + written(out, accumulate),
          [&] { inner_.dropout(stream, x, key, out, accumulate); });
  }

  // Products, by rows, in, out.
  void linear_forward(Stream& stream, const Tensor& x, const Tensor& weight, WeightLayout layout,
                      const Tensor& bias, const Tensor& out) override {
    timed(product("linear forward", x, out), product_flops(x, out),
          of(x) + of(weight) + of(bias) + of(out),
          [&] { inner_.linear_forward(stream, x, weight, layout, bias, out); });
  }
  void linear_gelu_forward(Stream& stream, const Tensor& x, const Tensor& weight,
                           WeightLayout layout, const Tensor& bias, const Tensor& pre_activation,
                           const Tensor& out) override {
    timed(product("linear gelu forward", x, out), product_flops(x, out),
          of(x) + of(weight) + of(bias) + of(pre_activation) + of(out), [&] {
            inner_.linear_gelu_forward(stream, x, weight, layout, bias, pre_activation, out);
          });
  }
  void linear_backward_input(Stream& stream, const Tensor& dy, const Tensor& weight,
                             WeightLayout layout, const Tensor& dx, bool accumulate) override {
    timed(product("linear backward input", dx, dy), product_flops(dx, dy),
          of(dy) + of(weight) + written(dx, accumulate),
          [&] { inner_.linear_backward_input(stream, dy, weight, layout, dx, accumulate); });
  }
  void linear_backward_weight(Stream& stream, const Tensor& x, const Tensor& dy,
                              WeightLayout layout, const Tensor& dweight,
                              bool accumulate) override {
    timed(product("linear backward weight", x, dy), product_flops(x, dy),
          of(x) + of(dy) + written(dweight, accumulate),
          [&] { inner_.linear_backward_weight(stream, x, dy, layout, dweight, accumulate); });
  }
  void sum_rows(Stream& stream, const Tensor& x, const Tensor& out, bool accumulate) override {
    timed({"sum rows", {x.numel() / out.numel(), out.numel()}}, 0, of(x) + written(out, accumulate),
          [&] { inner_.sum_rows(stream, x, out, accumulate); });
  }

  void layer_norm_forward(Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                          double epsilon, const Tensor& out, const Tensor& mean,
                          const Tensor& rstd) override {
    timed(by_rows("layer norm forward", out), 0, of(x) + of(out),
          [&] { inner_.layer_norm_forward(stream, x, weight, bias, epsilon, out, mean, rstd); });
  }
  void add_layer_norm_forward(Stream& stream, const Tensor& a, const Tensor& b,
                              const Tensor& weight, const Tensor& bias, double epsilon,
                              const Tensor& sum, const Tensor& out, const Tensor& mean,
                              const Tensor& rstd) override {
    timed(by_rows("add layer norm forward", out), 0, of(a) + of(b) + of(sum) + of(out), [&] {
      inner_.add_layer_norm_forward(stream, a, b, weight, bias, epsilon, sum, out, mean, rstd);
    });
  }
  void layer_norm_backward_input(Stream& stream, const Tensor& x, const Tensor& weight,
                                 const Tensor& mean, const Tensor& rstd, const Tensor& dy,
                                 const Tensor& dx, bool accumulate) override {
    timed(by_rows("layer norm backward input", dx), 0, of(x) + of(dy) + written(dx, accumulate),
          [&] {
            inner_.layer_norm_backward_input(stream, x, weight, mean, rstd, dy, dx, accumulate);
          });
  }
  void layer_norm_backward_parameters(Stream& stream, const Tensor& x, const Tensor& mean,
                                      const Tensor& rstd, const Tensor& dy, const Tensor& dweight,
                                      bool accumulate_weight, const Tensor& dbias,
                                      bool accumulate_bias) override {
    timed(by_rows("layer norm backward weight", dy), 0, of(x) + of(dy), [&] {
      inner_.layer_norm_backward_parameters(stream, x, mean, rstd, dy, dweight, accumulate_weight,
                                            dbias, accumulate_bias);
    });
  }

  // Attention: two products of a T x T square a head forward (causal: of half), five backward.
  void attention_forward(Stream& stream, const Tensor& qkv, int64_t num_heads, AttentionMask mask,
                         const Tensor& out, const Tensor& log_sum_exp) override {
    timed(attention("attention forward", out), 2 * square_flops(out, mask),
          of(qkv) + of(out) + of(log_sum_exp),
          [&] { inner_.attention_forward(stream, qkv, num_heads, mask, out, log_sum_exp); });
  }
  void attention_backward(Stream& stream, const Tensor& qkv, const Tensor& out,
                          const Tensor& log_sum_exp, const Tensor& dy, int64_t num_heads,
                          AttentionMask mask, const Tensor& dqkv, bool accumulate) override {
    timed(attention("attention backward", out), 5 * square_flops(out, mask),
          of(qkv) + of(out) + of(log_sum_exp) + of(dy) + written(dqkv, accumulate), [&] {
            inner_.attention_backward(stream, qkv, out, log_sum_exp, dy, num_heads, mask, dqkv,
                                      accumulate);
          });
  }
  void attention_last(Stream& stream, const Tensor& qkv, int64_t num_heads,
                      const Tensor& out) override {
    timed(attention("attention of the last", qkv), 4.0 / 3.0 * static_cast<double>(qkv.numel()),
          of(qkv) + of(out), [&] { inner_.attention_last(stream, qkv, num_heads, out); });
  }

  void embedding_forward(Stream& stream, const Tensor& indices, const Tensor& table,
                         const Tensor& out) override {
    timed(by_rows("embedding forward", out), 0, 2 * of(out),
          [&] { inner_.embedding_forward(stream, indices, table, out); });
  }
  void embedding_backward(Stream& stream, const Tensor& indices, const Tensor& dy,
                          const Tensor& dtable, bool accumulate) override {
    timed(by_rows("embedding backward", dy), 0, 3 * of(dy) + (accumulate ? 0 : of(dtable)),
          [&] { inner_.embedding_backward(stream, indices, dy, dtable, accumulate); });
  }

  void cross_entropy_forward(Stream& stream, const Tensor& logits, const Tensor& targets,
                             const Tensor& log_sum_exp, const Tensor& loss) override {
    timed(by_rows("cross entropy forward", logits), 0, of(logits),
          [&] { inner_.cross_entropy_forward(stream, logits, targets, log_sum_exp, loss); });
  }
  void cross_entropy_backward(Stream& stream, const Tensor& dloss, const Tensor& targets,
                              const Tensor& log_sum_exp, const Tensor& logits) override {
    timed(by_rows("cross entropy backward", logits), 0, 2 * of(logits),
          [&] { inner_.cross_entropy_backward(stream, dloss, targets, log_sum_exp, logits); });
  }
  void mse_forward(Stream& stream, const Tensor& prediction, const Tensor& target,
                   const Tensor& loss) override {
    timed(by_rows("mse forward", prediction), 0, 2 * of(prediction),
          [&] { inner_.mse_forward(stream, prediction, target, loss); });
  }
  void mse_backward(Stream& stream, const Tensor& dloss, const Tensor& prediction,
                    const Tensor& target, const Tensor& dprediction, bool accumulate) override {
    timed(by_rows("mse backward", prediction), 0,
          2 * of(prediction) + written(dprediction, accumulate),
          [&] { inner_.mse_backward(stream, dloss, prediction, target, dprediction, accumulate); });
  }

 private:
  static OpKey by_rows(std::string_view name, const Tensor& tensor) {
    return {name, {tensor.shape().rows(), tensor.shape().cols()}};
  }
  static OpKey product(std::string_view name, const Tensor& in, const Tensor& out) {
    return {name, {in.shape().rows(), in.shape().cols(), out.shape().cols()}};
  }
  static double product_flops(const Tensor& in, const Tensor& out) {
    return 2.0 * static_cast<double>(in.numel()) * static_cast<double>(out.shape().cols());
  }
  static OpKey attention(std::string_view name, const Tensor& out) {
    return {name, {out.shape()[0], out.shape()[1], out.shape()[2]}};
  }
  static double square_flops(const Tensor& out, AttentionMask mask) {
    return (mask == AttentionMask::kCausal ? 1.0 : 2.0) * static_cast<double>(out.numel()) *
           static_cast<double>(out.shape()[1]);
  }

  template <typename Body>
  void timed(const OpKey& key, double flops, double bytes, Body&& body) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    body();
    profile_.add(key, {.calls = 1,
                       .seconds = std::chrono::duration<double>(Clock::now() - begin).count(),
                       .flops = flops,
                       .bytes = bytes});
  }

  Backend& inner_;
  OpProfile& profile_;
};

}  // namespace

std::unique_ptr<Backend> make_profiled_backend(Backend& inner, OpProfile& profile) {
  return std::make_unique<ProfiledBackend>(inner, profile);
}

}  // namespace zerolab::bench

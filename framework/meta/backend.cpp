#include "framework/meta/backend.h"

#include <algorithm>

#include "framework/core/cpu_stream.h"
#include "framework/core/rank_context.h"

namespace zerolab {
namespace {

class MetaBackend final : public Backend {
 public:
  explicit MetaBackend(const Backend& imitated) : imitated_(imitated) {}
  std::string_view name() const override { return "meta"; }
  bool computes() const override { return false; }

  std::unique_ptr<Allocator> make_allocator(MemoryLedger& ledger, bool /*poison*/) const override {
    return std::make_unique<MetaAllocator>(ledger);
  }
  std::unique_ptr<RankStreams> make_streams(StreamMode mode, uint64_t lazy_seed) const override {
    return make_cpu_streams(mode, lazy_seed);
  }
  void bind_thread(int rank, int threads) const override { imitated_.bind_thread(rank, threads); }
  void copy_from_host(Stream&, std::span<const std::byte>, const Tensor&) override {}
  void copy_to_host(const Tensor&, std::span<std::byte> out) override {
    std::fill(out.begin(), out.end(), std::byte{0});
  }

  void fill(Stream&, const Tensor&, double) override {}
  void copy(Stream&, const Tensor&, const Tensor&) override {}
  void accumulate(Stream&, const Tensor&, const Tensor&) override {}
  void add(Stream&, const Tensor&, const Tensor&, const Tensor&) override {}
  void scale(Stream&, const Tensor&, double, const Tensor&, bool) override {}
  void relu_forward(Stream&, const Tensor&, const Tensor&) override {}
  void relu_backward(Stream&, const Tensor&, const Tensor&, const Tensor&, bool) override {}
  void gelu_forward(Stream&, const Tensor&, const Tensor&) override {}
  void gelu_backward(Stream&, const Tensor&, const Tensor&, const Tensor&, bool) override {}
  void dropout(Stream&, const Tensor&, const DropoutKey&, const Tensor&, bool) override {}

  void linear_forward(Stream&, const Tensor& x, const Tensor&, WeightLayout layout,
                      const Tensor& bias, const Tensor& out) override {
    Tensor::workspace(out.context(), linear_workspace(LinearCall::forward(x, layout, bias, out)));
  }
  void linear_backward_input(Stream&, const Tensor& dy, const Tensor&, WeightLayout layout,
                             const Tensor& dx, bool accumulate) override {
    Tensor::workspace(dx.context(),
                      linear_workspace(LinearCall::backward_input(dy, layout, dx, accumulate)));
  }
  void linear_backward_weight(Stream&, const Tensor& x, const Tensor& dy, WeightLayout layout,
                              const Tensor& dweight, bool accumulate) override {
    Tensor::workspace(dweight.context(), linear_workspace(LinearCall::backward_weight(
                                             x, dy, layout, dweight, accumulate)));
  }
  void sum_rows(Stream&, const Tensor& x, const Tensor& out, bool) override {
    if (out.numel() > 0) {
      Tensor::workspace(out.context(), sum_workspace(x.numel() / out.numel(), out.numel()));
    }
  }

  void layer_norm_forward(Stream&, const Tensor&, const Tensor&, const Tensor&, double,
                          const Tensor&, const Tensor&, const Tensor&) override {}
  void layer_norm_backward_input(Stream&, const Tensor&, const Tensor&, const Tensor&,
                                 const Tensor&, const Tensor&, const Tensor&, bool) override {}
  void layer_norm_backward_parameters(Stream&, const Tensor& x, const Tensor&, const Tensor&,
                                      const Tensor&, const Tensor&, bool, const Tensor&,
                                      bool) override {
    Tensor::workspace(x.context(), sum_workspace(x.shape().rows(), x.shape().cols()));
  }
  void attention_forward(Stream&, const Tensor& qkv, int64_t num_heads, const Tensor&,
                         const Tensor&) override {
    Tensor::workspace(qkv.context(), attention_workspace(AttentionCall::forward(qkv, num_heads)));
  }
  void attention_backward(Stream&, const Tensor& qkv, const Tensor&, const Tensor&, const Tensor&,
                          int64_t num_heads, const Tensor&, bool accumulate) override {
    Tensor::workspace(qkv.context(),
                      attention_workspace(AttentionCall::backward(qkv, num_heads, accumulate)));
  }
  void embedding_forward(Stream&, const Tensor&, const Tensor&, const Tensor&) override {}
  void embedding_backward(Stream&, const Tensor&, const Tensor&, const Tensor&, bool) override {}

  void cross_entropy_forward(Stream&, const Tensor&, const Tensor&, const Tensor&,
                             const Tensor&) override {}
  void cross_entropy_backward(Stream&, const Tensor&, const Tensor&, const Tensor&,
                              const Tensor&) override {}
  void mse_forward(Stream&, const Tensor&, const Tensor&, const Tensor&) override {}
  void mse_backward(Stream&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                    bool) override {}

  void adamw(Stream&, const AdamWArguments&, const Tensor&, const Tensor&, const Tensor&,
             const Tensor&) override {}
  void sgd(Stream&, const SgdArguments&, const Tensor&, const Tensor&, const Tensor&) override {}
  void gradient_statistics(Stream&, const Tensor&, int64_t, int64_t, const Tensor&) override {}
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
  const Backend& imitated_;
};

}  // namespace

std::unique_ptr<Backend> make_meta_backend(const Backend& imitated) {
  return std::make_unique<MetaBackend>(imitated);
}

}  // namespace zerolab

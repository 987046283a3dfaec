#pragma once

#include <memory>

#include "framework/onednn/matrix_products.h"
#include "framework/plain/plain_backend.h"

namespace zerolab {

/// The fast kernels of the CPU; what it does not override is cheap, and plain's.
class OnednnBackend final : public PlainBackend {
 public:
  std::string_view name() const override { return "onednn"; }
  void bind_thread(int rank, int threads) const override;

  // --- elementwise ---
  void fill(Stream& stream, const Tensor& out, double value) override;
  void copy(Stream& stream, const Tensor& source, const Tensor& out) override;
  void accumulate(Stream& stream, const Tensor& source, const Tensor& out) override;
  void add(Stream& stream, const Tensor& a, const Tensor& b, const Tensor& out) override;
  void scale(Stream& stream, const Tensor& a, double factor, const Tensor& out,
             bool accumulate) override;
  void relu_forward(Stream& stream, const Tensor& x, const Tensor& out) override;
  void relu_backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx,
                     bool accumulate) override;
  void gelu_forward(Stream& stream, const Tensor& x, const Tensor& out) override;
  void gelu_backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx,
                     bool accumulate) override;
  void silu_forward(Stream& stream, const Tensor& x, const Tensor& out) override;
  void silu_backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx,
                     bool accumulate) override;
  void dropout(Stream& stream, const Tensor& x, const DropoutKey& key, const Tensor& out,
               bool accumulate) override;

  // --- linear ---
  void linear_forward(Stream& stream, const Tensor& x, const Tensor& weight, WeightLayout layout,
                      const Tensor& bias, const Tensor& out) override;
  void linear_backward_input(Stream& stream, const Tensor& dy, const Tensor& weight,
                             WeightLayout layout, const Tensor& dx, bool accumulate) override;
  void linear_backward_weight(Stream& stream, const Tensor& x, const Tensor& dy,
                              WeightLayout layout, const Tensor& dweight, bool accumulate) override;
  void sum_rows(Stream& stream, const Tensor& x, const Tensor& out, bool accumulate) override;
  int64_t linear_workspace(const LinearCall& call) const override;

  // --- layer norm ---
  void layer_norm_forward(Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                          double epsilon, const Tensor& out, const Tensor& mean,
                          const Tensor& rstd) override;
  void layer_norm_backward_input(Stream& stream, const Tensor& x, const Tensor& weight,
                                 const Tensor& mean, const Tensor& rstd, const Tensor& dy,
                                 const Tensor& dx, bool accumulate) override;
  void layer_norm_backward_parameters(Stream& stream, const Tensor& x, const Tensor& mean,
                                      const Tensor& rstd, const Tensor& dy, const Tensor& dweight,
                                      bool accumulate_weight, const Tensor& dbias,
                                      bool accumulate_bias) override;

  // --- softmax, means and other orders ---
  void softmax_forward(Stream& stream, const Tensor& x, const Tensor& out) override;
  void softmax_backward(Stream& stream, const Tensor& out, const Tensor& dy, const Tensor& dx,
                        bool accumulate) override;
  void mean_positions(Stream& stream, const Tensor& x, const Tensor& out) override;
  void copy_strided(Stream& stream, const Tensor& source, const StridedCopy& copy,
                    const Tensor& out, bool accumulate) override;

  // --- attention ---
  void attention_forward(Stream& stream, const Tensor& qkv, int64_t num_heads, AttentionMask mask,
                         const Tensor& out, const Tensor& log_sum_exp) override;
  void attention_backward(Stream& stream, const Tensor& qkv, const Tensor& out,
                          const Tensor& log_sum_exp, const Tensor& dy, int64_t num_heads,
                          AttentionMask mask, const Tensor& dqkv, bool accumulate) override;
  void attention_last(Stream& stream, const Tensor& qkv, int64_t num_heads,
                      const Tensor& out) override;

  // --- embedding ---
  void embedding_forward(Stream& stream, const Tensor& indices, const Tensor& table,
                         const Tensor& out) override;
  void embedding_backward(Stream& stream, const Tensor& indices, const Tensor& dy,
                          const Tensor& dtable, bool accumulate) override;

  // --- losses ---
  void cross_entropy_forward(Stream& stream, const Tensor& logits, const Tensor& targets,
                             const Tensor& log_sum_exp, const Tensor& loss) override;
  void cross_entropy_backward(Stream& stream, const Tensor& dloss, const Tensor& targets,
                              const Tensor& log_sum_exp, const Tensor& logits) override;
  void mse_backward(Stream& stream, const Tensor& dloss, const Tensor& prediction,
                    const Tensor& target, const Tensor& dprediction, bool accumulate) override;

  // --- optimizer ---
  void update(Stream& stream, const UpdateRule& rule, double gradient_scale, const Tensor& gradient,
              const Tensor& parameter, std::span<const Tensor> states) override;

  // --- statistics ---
  void gradient_statistics(Stream& stream, const Tensor& gradient, int64_t block,
                           int64_t base_index, const Tensor& statistics) override;

  // --- collectives ---
  void reduce_in_order(std::span<const std::byte* const> sources, DType dtype, double divisor,
                       std::span<std::byte> out) override;

 private:
  /// Puts one product on `stream`, with its workspace from the ledger of out's rank.
  void launch_product(Stream& stream, const LinearCall& call, const Tensor& a, const Tensor& b,
                      const Tensor& bias, const Tensor& out);

  mutable onednn::MatrixProducts products_;
};

}  // namespace zerolab

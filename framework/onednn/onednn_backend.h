#pragma once

#include <memory>

#include "framework/onednn/matrix_products.h"
#include "framework/plain/plain_backend.h"

namespace zerolab {

/// The fast kernels of the CPU; what it does not override is cheap, and plain's.
class OnednnBackend final : public PlainBackend {
 public:
  std::string_view name() const override { return "onednn"; }
  void bind_thread(int threads) const override;

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

  // --- linear ---
  void linear_forward(Stream& stream, const Tensor& x, const Tensor& weight, WeightLayout layout,
                      const Tensor& bias, const Tensor& out) override;
  void linear_backward_input(Stream& stream, const Tensor& dy, const Tensor& weight,
                             WeightLayout layout, const Tensor& dx, bool accumulate) override;
  void linear_backward_weight(Stream& stream, const Tensor& x, const Tensor& dy,
                              WeightLayout layout, const Tensor& dweight, bool accumulate) override;
  void sum_rows(Stream& stream, const Tensor& x, const Tensor& out, bool accumulate) override;
  int64_t linear_workspace(const LinearCall& call) const override;

  // --- optimizer ---
  void adamw(Stream& stream, const AdamWArguments& arguments, const Tensor& gradient,
             const Tensor& parameter, const Tensor& exp_avg, const Tensor& exp_avg_sq) override;
  void sgd(Stream& stream, const SgdArguments& arguments, const Tensor& gradient,
           const Tensor& parameter, const Tensor& momentum_buffer) override;

  // --- collectives ---
  void reduce_in_order(std::span<const float* const> sources, double divisor,
                       std::span<float> out) override;

 private:
  /// Puts one product on `stream`, with its scratchpad from the workspace of out's rank.
  void launch_product(Stream& stream, const LinearCall& call, const Tensor& a, const Tensor& b,
                      const Tensor& bias, const Tensor& out);

  mutable onednn::MatrixProducts products_;
};

}  // namespace zerolab

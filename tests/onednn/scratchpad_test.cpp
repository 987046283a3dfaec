#include <gtest/gtest.h>

#include <dnnl.hpp>

#include "framework/kernels/linear_call.h"
#include "framework/kernels/weight_layout.h"
#include "framework/tensor/backend.h"
#include "tests/framework/onednn_rank.h"

namespace zerolab {
namespace {

using Pass = LinearCall::Pass;
using Desc = dnnl::memory::desc;

Desc matrix(int64_t rows, int64_t cols, bool transposed) {
  const auto strides = transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{cols, 1};
  return Desc({rows, cols}, dnnl::memory::data_type::f32, strides);
}

/// Bytes that oneDNN asks of its caller for a fp32 product on this processor; on some it is 0.
int64_t scratchpad_of(const LinearCall& call) {
  const bool out_in = call.layout == WeightLayout::kOutIn;
  Desc a = matrix(call.rows, call.in, false);
  Desc b = matrix(call.in, call.out, out_in);
  if (call.pass == Pass::kBackwardInput) {
    a = matrix(call.rows, call.out, false);
    b = matrix(call.out, call.in, !out_in);
  } else if (call.pass == Pass::kBackwardWeight) {
    a = matrix(out_in ? call.out : call.in, call.rows, true);
    b = matrix(call.rows, out_in ? call.in : call.out, false);
  }
  const Desc out = matrix(a.dims()[0], b.dims()[1], false);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (call.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const auto product = call.bias ? dnnl::matmul::desc(a, b, matrix(1, call.out, false), out)
                                 : dnnl::matmul::desc(a, b, out);
  const dnnl::matmul::primitive_desc description(product, attributes, engine);
  return (static_cast<int64_t>(description.scratchpad_desc().get_size()) + 3) / 4 * 4;
}

LinearCall call_of(Pass pass, WeightLayout layout, bool bias, bool accumulate) {
  return {.pass = pass,
          .rows = 256,
          .in = 768,
          .out = 512,
          .layout = layout,
          .bias = bias,
          .accumulate = accumulate,
          .dtype = DType::kFloat32,
          .out_dtype = DType::kFloat32};
}

class Scratchpad : public ::testing::TestWithParam<WeightLayout> {
 protected:
  Rank rank_{make_onednn_backend(), 2};
};

TEST_P(Scratchpad, IsWhatOnednnAsksFor) {
  for (const Pass pass : {Pass::kForward, Pass::kBackwardInput, Pass::kBackwardWeight}) {
    for (const bool bias : {false, true}) {
      for (const bool accumulate : {false, true}) {
        if (bias && pass != Pass::kForward) {
          continue;
        }
        const LinearCall call = call_of(pass, GetParam(), bias, accumulate);
        EXPECT_EQ(rank_.backend->linear_workspace(call), scratchpad_of(call))
            << static_cast<int>(pass) << " " << bias << " " << accumulate;
      }
    }
  }
}

/// Each pass takes it from the ledger, and gives it back.
TEST_P(Scratchpad, IsTakenFromTheLedger) {
  const Shape weights = GetParam() == WeightLayout::kOutIn ? Shape{512, 768} : Shape{768, 512};
  const Tensor x = rank_.random(Shape{256, 768}, 1);
  const Tensor weight = rank_.random(weights, 2);
  const Tensor bias = rank_.random(Shape{512}, 3);
  const Tensor out = rank_.random(Shape{256, 512}, 4);
  int64_t largest = 0;
  const auto check = [&](const LinearCall& call) {
    largest = std::max(largest, scratchpad_of(call));
    const auto ledger = rank_.context.ledger().snapshot();
    EXPECT_EQ(ledger.peak_of(Category::kWorkspace), largest);
    EXPECT_EQ(ledger.current_of(Category::kWorkspace), 0);
  };
  Backend& backend = *rank_.backend;
  backend.linear_forward(rank_.stream(), x, weight, GetParam(), Tensor(), out);
  check(call_of(Pass::kForward, GetParam(), false, false));
  backend.linear_forward(rank_.stream(), x, weight, GetParam(), bias, out);
  check(call_of(Pass::kForward, GetParam(), true, false));
  backend.linear_backward_input(rank_.stream(), out, weight, GetParam(), x, true);
  check(call_of(Pass::kBackwardInput, GetParam(), false, true));
  backend.linear_backward_weight(rank_.stream(), x, out, GetParam(), weight, true);
  check(call_of(Pass::kBackwardWeight, GetParam(), false, true));
}

INSTANTIATE_TEST_SUITE_P(Layouts, Scratchpad,
                         ::testing::Values(WeightLayout::kOutIn, WeightLayout::kInOut),
                         [](const auto& info) {
                           return info.param == WeightLayout::kOutIn ? "OutIn" : "InOut";
                         });

}  // namespace
}  // namespace zerolab

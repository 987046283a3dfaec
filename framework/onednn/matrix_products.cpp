#include "framework/onednn/matrix_products.h"

#include <omp.h>

#include <mutex>
#include <unordered_map>

namespace zerolab::onednn {
namespace {

using Desc = dnnl::memory::desc;

/// A matrix in row-major memory, or the transpose of one.
Desc matrix(int64_t rows, int64_t cols, bool transposed) {
  const dnnl::memory::dims strides =
      transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{cols, 1};
  return Desc({rows, cols}, dnnl::memory::data_type::f32, strides);
}

Desc left(const LinearCall& call) {
  switch (call.pass) {
    case LinearCall::Pass::kForward:
      return matrix(call.rows, call.in, false);
    case LinearCall::Pass::kBackwardInput:
      return matrix(call.rows, call.out, false);
    case LinearCall::Pass::kBackwardWeight:
      break;
  }
  return matrix(call.layout == WeightLayout::kInOut ? call.in : call.out, call.rows, true);
}

Desc right(const LinearCall& call) {
  const bool out_in = call.layout == WeightLayout::kOutIn;
  switch (call.pass) {
    case LinearCall::Pass::kForward:
      return matrix(call.in, call.out, out_in);
    case LinearCall::Pass::kBackwardInput:
      return matrix(call.out, call.in, !out_in);
    case LinearCall::Pass::kBackwardWeight:
      break;
  }
  return matrix(call.rows, out_in ? call.in : call.out, false);
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const LinearCall& call,
                                      const Desc& a, const Desc& b, const Desc& bias,
                                      const Desc& out) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (call.accumulate) {
    dnnl::post_ops post_ops;
    post_ops.append_sum(1.0F);
    attributes.set_post_ops(post_ops);
  }
  const auto operation =
      call.bias ? dnnl::matmul::desc(a, b, bias, out) : dnnl::matmul::desc(a, b, out);
  return {operation, attributes, engine};
}

}  // namespace

MatrixProduct::MatrixProduct(const dnnl::engine& engine, const LinearCall& call)
    : engine_(engine), a_(left(call)), b_(right(call)) {
  out_ = matrix(a_.dims()[0], b_.dims()[1], false);
  if (call.bias) {
    bias_ = matrix(1, call.out, false);
  }
  const auto description = describe(engine, call, a_, b_, bias_, out_);
  scratchpad_ = description.scratchpad_desc();
  primitive_ = dnnl::matmul(description);
}

void MatrixProduct::execute(float* a, float* b, float* bias, float* out, float* scratchpad) const {
  std::unordered_map<int, dnnl::memory> arguments = {
      {DNNL_ARG_SRC, dnnl::memory(a_, engine_, a)},
      {DNNL_ARG_WEIGHTS, dnnl::memory(b_, engine_, b)},
      {DNNL_ARG_DST, dnnl::memory(out_, engine_, out)},
      {DNNL_ARG_SCRATCHPAD, dnnl::memory(scratchpad_, engine_, scratchpad)}};
  if (bias != nullptr) {
    arguments.emplace(DNNL_ARG_BIAS, dnnl::memory(bias_, engine_, bias));
  }
  dnnl::stream stream(engine_);
  primitive_.execute(stream, arguments);
  stream.wait();
}

const MatrixProduct& MatrixProducts::find(const LinearCall& call) {
  const Key key = {omp_get_max_threads(), call.pass, call.rows,      call.in, call.out,
                   call.layout,           call.bias, call.accumulate};
  {
    const std::shared_lock lock(mutex_);
    const auto found = products_.find(key);
    if (found != products_.end()) {
      return found->second;
    }
  }
  MatrixProduct product(engine_, call);
  const std::unique_lock lock(mutex_);
  return products_.try_emplace(key, std::move(product)).first->second;
}

}  // namespace zerolab::onednn

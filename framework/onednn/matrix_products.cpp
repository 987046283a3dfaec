#include "framework/onednn/matrix_products.h"

#include <omp.h>

#include <mutex>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "framework/onednn/kernel.h"

namespace zerolab::onednn {
namespace {

using Desc = dnnl::memory::desc;

/// A matrix in row-major memory, or the transpose of one.
Desc matrix(int64_t rows, int64_t cols, bool transposed, DType dtype) {
  using Type = dnnl::memory::data_type;
  const Type type = with_type(dtype, []<typename T>(T) {
    return std::is_same_v<T, float> ? Type::f32
                                    : (std::is_same_v<T, BFloat16> ? Type::bf16 : Type::f16);
  });
  const dnnl::memory::dims strides =
      transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{cols, 1};
  return Desc({rows, cols}, type, strides);
}

Desc left(const LinearCall& call) {
  switch (call.pass) {
    case LinearCall::Pass::kForward:
      return matrix(call.rows, call.in, false, call.dtype);
    case LinearCall::Pass::kBackwardInput:
      return matrix(call.rows, call.out, false, call.dtype);
    case LinearCall::Pass::kBackwardWeight:
      break;
  }
  return matrix(call.layout == WeightLayout::kInOut ? call.in : call.out, call.rows, true,
                call.dtype);
}

Desc right(const LinearCall& call) {
  const bool out_in = call.layout == WeightLayout::kOutIn;
  switch (call.pass) {
    case LinearCall::Pass::kForward:
      return matrix(call.in, call.out, out_in, call.dtype);
    case LinearCall::Pass::kBackwardInput:
      return matrix(call.out, call.in, !out_in, call.dtype);
    case LinearCall::Pass::kBackwardWeight:
      break;
  }
  return matrix(call.rows, out_in ? call.in : call.out, false, call.dtype);
}

/// Floats of a fp32 matrix in the workspace, up to the next that is 64-byte aligned; 0 for none.
int64_t floats_of(const Desc& desc) {
  const auto floats = static_cast<int64_t>(desc.get_size() / sizeof(float));
  return (floats + kLanes - 1) / kLanes * kLanes;
}

/// out (+)= source, of any two dtypes, by the calling thread's OpenMP threads.
template <typename From, typename To>
void convert(const From* source, To* out, int64_t numel, bool accumulate) {
  parallel_chunks(omp_get_max_threads(), numel, kGrain, [&](int64_t begin, int64_t end) {
    for_vectors(begin, end, [&](int64_t i, auto lanes) {
      put(lanes, out + i, lanes.load(source + i), accumulate);
    });
  });
}

}  // namespace

MatrixProduct::MatrixProduct(const dnnl::engine& engine, const LinearCall& call)
    : engine_(engine), call_(call) {
  widened_ = !compile(call, true);
  if (widened_) {
    LinearCall wide = call;
    wide.dtype = DType::kFloat32;
    wide.out_dtype = DType::kFloat32;
    wide.accumulate = call.accumulate && call.out_dtype == DType::kFloat32;
    compile(wide, false);
  }
}

bool MatrixProduct::compile(const LinearCall& call, bool may_fail) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (call.accumulate) {
    dnnl::post_ops post_ops;
    post_ops.append_sum(1.0F);
    attributes.set_post_ops(post_ops);
  }
  a_ = left(call);
  b_ = right(call);
  bias_ = call.bias ? matrix(1, call.out, false, call.dtype) : Desc();
  out_ = matrix(a_.dims()[0], b_.dims()[1], false, call.out_dtype);
  const auto operation =
      call.bias ? dnnl::matmul::desc(a_, b_, bias_, out_) : dnnl::matmul::desc(a_, b_, out_);
  const dnnl::matmul::primitive_desc description(operation, attributes, engine_, may_fail);
  if (!description) {
    return false;
  }
  scratchpad_ = description.scratchpad_desc();
  primitive_ = dnnl::matmul(description);
  return true;
}

int64_t MatrixProduct::workspace_bytes() const {
  int64_t floats = (static_cast<int64_t>(scratchpad_.get_size()) + 3) / 4;
  if (widened_) {
    floats += floats_of(a_) + floats_of(b_) + floats_of(bias_);
    floats += call_.out_dtype == DType::kFloat32 ? 0 : floats_of(out_);
  }
  return floats * size_of(DType::kFloat32);
}

void MatrixProduct::execute(std::byte* a, std::byte* b, std::byte* bias, std::byte* out,
                            float* workspace) const {
  if (!widened_) {
    execute_compiled(a, b, bias, out, workspace);
    return;
  }
  const auto take = [&](const Desc& desc) {
    return std::exchange(workspace, workspace + floats_of(desc));
  };
  const auto widen = [&](const std::byte* source, const Desc& desc) {
    float* wide = take(desc);
    with_type(call_.dtype, [&]<typename T>(T) {
      convert(reinterpret_cast<const T*>(source), wide, desc.get_size() / sizeof(float), false);
    });
    return wide;
  };
  float* wide_a = widen(a, a_);
  float* wide_b = widen(b, b_);
  float* wide_bias = widen(bias, bias_);
  if (call_.out_dtype == DType::kFloat32) {
    execute_compiled(wide_a, wide_b, wide_bias, out, workspace);
    return;
  }
  float* product = take(out_);
  execute_compiled(wide_a, wide_b, wide_bias, product, workspace);
  with_type(call_.out_dtype, [&]<typename T>(T) {
    convert(product, reinterpret_cast<T*>(out), out_.get_size() / sizeof(float), call_.accumulate);
  });
}

void MatrixProduct::execute_compiled(void* a, void* b, void* bias, void* out,
                                     float* scratchpad) const {
  std::unordered_map<int, dnnl::memory> arguments = {
      {DNNL_ARG_SRC, dnnl::memory(a_, engine_, a)},
      {DNNL_ARG_WEIGHTS, dnnl::memory(b_, engine_, b)},
      {DNNL_ARG_DST, dnnl::memory(out_, engine_, out)},
      {DNNL_ARG_SCRATCHPAD, dnnl::memory(scratchpad_, engine_, scratchpad)}};
  if (call_.bias) {
    arguments.emplace(DNNL_ARG_BIAS, dnnl::memory(bias_, engine_, bias));
  }
  dnnl::stream stream(engine_);
  primitive_.execute(stream, arguments);
  stream.wait();
}

const MatrixProduct& MatrixProducts::find(const LinearCall& call) {
  const Key key = {omp_get_max_threads(), call.pass, call.rows,       call.in,    call.out,
                   call.layout,           call.bias, call.accumulate, call.dtype, call.out_dtype};
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

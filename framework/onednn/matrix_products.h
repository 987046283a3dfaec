#pragma once

#include <dnnl.hpp>
#include <map>
#include <memory>
#include <shared_mutex>
#include <tuple>

#include "framework/kernels/linear_call.h"

namespace zerolab::onednn {

/// One compiled product a · b (+ bias) of a linear kernel. May be executed by several threads at
/// once, each with a workspace of its own.
///
/// Where the library has no product of the call's dtypes (fp16; bf16 on a processor without
/// AVX-512), the factors are widened into the workspace and multiplied in fp32, and a 16-bit result
/// is rounded from there.
class MatrixProduct {
 public:
  /// Compiles for the calling thread's number of OpenMP threads.
  MatrixProduct(const dnnl::engine& engine, const LinearCall& call);

  /// A whole number of floats.
  int64_t workspace_bytes() const;
  /// All matrices are of the call's dtypes. `bias` is null where the call has none; `workspace` is
  /// 64-byte aligned.
  void execute(std::byte* a, std::byte* b, std::byte* bias, std::byte* out, float* workspace) const;

 private:
  /// False, where allowed, if the library has no such product.
  bool compile(const LinearCall& call, bool may_fail);
  void execute_compiled(void* a, void* b, void* bias, void* out, float* scratchpad) const;

  dnnl::engine engine_;
  LinearCall call_;
  bool widened_ = false;
  dnnl::memory::desc a_;
  dnnl::memory::desc b_;
  dnnl::memory::desc bias_;
  dnnl::memory::desc out_;
  dnnl::memory::desc scratchpad_;
  dnnl::matmul primitive_;
};

/// The products compiled so far. Shared by the ranks' threads; products stay where they are.
class MatrixProducts {
 public:
  /// Compiles at the first call of its kind.
  const MatrixProduct& find(const LinearCall& call);

 private:
  using Key = std::tuple<int, LinearCall::Pass, int64_t, int64_t, int64_t, WeightLayout, bool, bool,
                         DType, DType>;

  const dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  std::shared_mutex mutex_;
  std::map<Key, MatrixProduct> products_;
};

}  // namespace zerolab::onednn

#pragma once

#include <dnnl.hpp>
#include <map>
#include <memory>
#include <shared_mutex>
#include <tuple>

#include "framework/core/backend.h"

namespace zerolab::onednn {

/// One compiled product a · b (+ bias) of a linear kernel. May be executed by several threads at
/// once, each with a scratchpad of its own.
class MatrixProduct {
 public:
  /// Compiles for the calling thread's number of OpenMP threads.
  MatrixProduct(const dnnl::engine& engine, const LinearCall& call);

  /// In units of whole floats.
  int64_t scratchpad_bytes() const { return (scratchpad_.get_size() + 3) / 4 * 4; }
  void execute(float* a, float* b, float* bias, float* out, float* scratchpad) const;

 private:
  dnnl::engine engine_;
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
  using Key =
      std::tuple<int, LinearCall::Pass, int64_t, int64_t, int64_t, WeightLayout, bool, bool>;

  const dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  std::shared_mutex mutex_;
  std::map<Key, MatrixProduct> products_;
};

}  // namespace zerolab::onednn

#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <map>
#include <memory>
#include <shared_mutex>
#include <tuple>

#include "framework/kernels/linear_call.h"

namespace zerolab::cuda {

/// Owns what cuBLASLt made.
template <auto destroy>
struct CublasDestroy {
  template <typename T>
  void operator()(T* made) const {
    destroy(made);
  }
};
using CublasHandle = std::unique_ptr<cublasLtContext, CublasDestroy<&cublasLtDestroy>>;
using CublasDescription =
    std::unique_ptr<cublasLtMatmulDescOpaque_t, CublasDestroy<&cublasLtMatmulDescDestroy>>;
using CublasLayout =
    std::unique_ptr<cublasLtMatrixLayoutOpaque_t, CublasDestroy<&cublasLtMatrixLayoutDestroy>>;

/// How one product a · b (+ bias, and then its GELU) of a linear kernel is computed on one device.
/// Sums are fp32, and with `tf32` the factors of fp32 products are rounded to it; a 16-bit result
/// is rounded once, after bias and GELU or the addition to what is there. May be launched by
/// several threads at once, each with a workspace of its own.
class CublasProduct {
 public:
  /// `aligned`: every matrix, and the bias, begins at a multiple of 16 bytes.
  CublasProduct(cublasLtHandle_t handle, const LinearCall& call, bool aligned, bool tf32);

  /// A fixed function of the call, so that a dry run without a device knows it.
  static int64_t workspace_bytes(const LinearCall& call);
  /// Whether the library has such a product.
  bool exists() const { return status_ == CUBLAS_STATUS_SUCCESS; }
  /// All matrices are of the call's dtypes. `bias` and `pre_activation` are null where the call has
  /// none; `workspace` is 16-byte aligned. Throws unless the product exists.
  void launch(cudaStream_t stream, const std::byte* a, const std::byte* b, const std::byte* bias,
              std::byte* pre_activation, std::byte* out, std::byte* workspace) const;

 private:
  /// One per launch, since it holds addresses.
  CublasDescription describe(const std::byte* bias, std::byte* pre_activation) const;

  cublasLtHandle_t handle_;
  LinearCall call_;
  cublasComputeType_t compute_;
  bool transposed_a_ = false;  ///< a is in memory as its transpose
  bool transposed_b_ = false;
  CublasLayout a_;
  CublasLayout b_;
  CublasLayout out_;
  cublasStatus_t status_;  ///< of looking for an algorithm
  cublasLtMatmulAlgo_t algorithm_ = {};
};

/// The products planned so far, of all devices. Shared by the ranks' threads; products stay where
/// they are.
class CublasProducts {
 public:
  explicit CublasProducts(bool tf32) : tf32_(tf32) {}
  /// For the current device; plans at the first call of its kind.
  const CublasProduct& find(const LinearCall& call, bool aligned);

 private:
  using Key = std::tuple<int, bool, LinearCall>;  ///< device, aligned

  const bool tf32_;
  std::shared_mutex mutex_;
  std::map<int, CublasHandle> handles_;  ///< by device
  std::map<Key, CublasProduct> products_;
};

}  // namespace zerolab::cuda

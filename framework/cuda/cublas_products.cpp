#include "framework/cuda/cublas_products.h"

#include <algorithm>
#include <mutex>

#include "framework/cuda/check.h"

// cuBLASLt's matrices are column-major, so a row-major matrix is its transpose there, and
// out = a · b is computed as outᵀ = bᵀ · aᵀ: b is the library's first factor. A bias along our
// columns is then one along its rows, as its epilogue wants it.

namespace zerolab::cuda {
namespace {

constexpr int64_t kLargestWorkspace = int64_t{32} << 20;  // what NVIDIA recommends for sm_90
constexpr int64_t kCounters = int64_t{64} << 10;          // of algorithms that split little
constexpr int64_t kSplits = 16;                           // of the inner extent, each in fp32

void check_cublas(cublasStatus_t status, std::string_view what) {
  require(status == CUBLAS_STATUS_SUCCESS, "linear", "{} failed; got cuBLASLt's status {} ({})",
          what, static_cast<int>(status), cublasLtGetStatusString(status));
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return CUDA_R_32F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat16:
      return CUDA_R_16F;
    default:
      fail("linear", "no such product on a GPU; got {}, expected fp32, bf16 or fp16",
           name_of(dtype));
  }
}

/// A row-major matrix as the library sees it.
CublasLayout layout_of(int64_t rows, int64_t cols, DType dtype) {
  cublasLtMatrixLayout_t layout = nullptr;
  check_cublas(cublasLtMatrixLayoutCreate(&layout, type_of(dtype), cols, rows, cols),
               "describing a matrix");
  return CublasLayout(layout);
}

cublasLtEpilogue_t epilogue_of(const LinearCall& call) {
  if (!call.gelu) {
    return call.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
  if (call.pre_activation) {
    return call.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  }
  return call.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
}

template <typename T>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, T value) {
  check_cublas(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof(value)),
               "describing a product");
}

template <typename T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         T value) {
  check_cublas(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
               "preparing a product");
}

}  // namespace

CublasProduct::CublasProduct(cublasLtHandle_t handle, const LinearCall& call, bool aligned,
                             bool tf32)
    : handle_(handle),
      call_(call),
      compute_(tf32 && call.dtype == DType::kFloat32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                     : CUBLAS_COMPUTE_32F) {
  const bool out_in = call.layout == WeightLayout::kOutIn;
  const auto x = [&](DType dtype) { return layout_of(call.rows, call.in, dtype); };
  const auto y = [&](DType dtype) { return layout_of(call.rows, call.out, dtype); };
  const auto weight = [&](DType dtype) {
    return out_in ? layout_of(call.out, call.in, dtype) : layout_of(call.in, call.out, dtype);
  };
  switch (call.pass) {
    case LinearCall::Pass::kForward:
      a_ = x(call.dtype);
      b_ = weight(call.dtype);
      out_ = y(call.out_dtype);
      transposed_b_ = out_in;
      break;
    case LinearCall::Pass::kBackwardInput:
      a_ = y(call.dtype);
      b_ = weight(call.dtype);
      out_ = x(call.out_dtype);
      transposed_b_ = !out_in;
      break;
    case LinearCall::Pass::kBackwardWeight:
      a_ = out_in ? y(call.dtype) : x(call.dtype);
      b_ = out_in ? x(call.dtype) : y(call.dtype);
      out_ = weight(call.out_dtype);
      transposed_a_ = true;
      break;
  }
  cublasLtMatmulPreference_t made = nullptr;
  check_cublas(cublasLtMatmulPreferenceCreate(&made), "preparing a product");
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t,
                        CublasDestroy<&cublasLtMatmulPreferenceDestroy>>
      preference(made);
  const auto alignment_of = [&](DType dtype) {
    return aligned ? uint32_t{16} : static_cast<uint32_t>(size_of(dtype));
  };
  set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspace_bytes(call)));
  // Parts of a split product are added in fp32 and in order: one rounding, the same bits each time.
  set(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(call.dtype));
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(call.dtype));
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(call.out_dtype));
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(call.out_dtype));
  // Only the alignment of these addresses is looked at.
  const auto address = [&](DType dtype) {
    return reinterpret_cast<std::byte*>(uintptr_t{alignment_of(dtype)});
  };
  const CublasDescription description =
      describe(address(call.dtype), reinterpret_cast<std::byte*>(uintptr_t{16}));
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  status_ = cublasLtMatmulAlgoGetHeuristic(handle_, description.get(), b_.get(), a_.get(),
                                           out_.get(), out_.get(), made, 1, &result, &found);
  if (status_ == CUBLAS_STATUS_SUCCESS && found == 0) {
    status_ = CUBLAS_STATUS_NOT_SUPPORTED;
  }
  algorithm_ = result.algo;
}

int64_t CublasProduct::workspace_bytes(const LinearCall& call) {
  int64_t numel = 0;
  switch (call.pass) {
    case LinearCall::Pass::kForward:
      numel = call.rows * call.out;
      break;
    case LinearCall::Pass::kBackwardInput:
      numel = call.rows * call.in;
      break;
    case LinearCall::Pass::kBackwardWeight:
      numel = call.in * call.out;
      break;
  }
  return std::min(kLargestWorkspace, kCounters + kSplits * numel * size_of(DType::kFloat32));
}

CublasDescription CublasProduct::describe(const std::byte* bias, std::byte* pre_activation) const {
  cublasLtMatmulDesc_t made = nullptr;
  check_cublas(cublasLtMatmulDescCreate(&made, compute_, CUDA_R_32F), "describing a product");
  CublasDescription description(made);
  set(made, CUBLASLT_MATMUL_DESC_TRANSA, transposed_b_ ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(made, CUBLASLT_MATMUL_DESC_TRANSB, transposed_a_ ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(made, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(call_));
  if (call_.bias) {
    set(made, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(call_.dtype));
    set(made, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias));
  }
  if (call_.pre_activation) {  // of the result's dtype
    set(made, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, call_.out);
    set(made, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, static_cast<void*>(pre_activation));
  }
  return description;
}

void CublasProduct::launch(cudaStream_t stream, const std::byte* a, const std::byte* b,
                           const std::byte* bias, std::byte* pre_activation, std::byte* out,
                           std::byte* workspace) const {
  require(exists(), "linear",
          "cuBLASLt has no algorithm for a product ({}); got {} rows, {} in, {} out of {} into {}",
          cublasLtGetStatusString(status_), call_.rows, call_.in, call_.out, name_of(call_.dtype),
          name_of(call_.out_dtype));
  const float alpha = 1.0F;
  const float beta = call_.accumulate ? 1.0F : 0.0F;
  const CublasDescription description = describe(bias, pre_activation);
  check_cublas(cublasLtMatmul(handle_, description.get(), &alpha, b, b_.get(), a, a_.get(), &beta,
                              out, out_.get(), out, out_.get(), &algorithm_, workspace,
                              workspace_bytes(call_), stream),
               "launching a product");
}

const CublasProduct& CublasProducts::find(const LinearCall& call, bool aligned) {
  int device = 0;
  check(cudaGetDevice(&device), "asking for the current device");
  const Key key = {device, aligned, call};
  {
    const std::shared_lock lock(mutex_);
    const auto found = products_.find(key);
    if (found != products_.end()) {
      return found->second;
    }
  }
  const std::unique_lock lock(mutex_);
  CublasHandle& handle = handles_[device];
  if (handle == nullptr) {
    cublasLtHandle_t made = nullptr;
    check_cublas(cublasLtCreate(&made), "starting cuBLASLt");
    handle.reset(made);
  }
  return products_.try_emplace(key, handle.get(), call, aligned, tf32_).first->second;
}

}  // namespace zerolab::cuda

// cuBLASLt: column-major products of fp32, bf16 and fp16 with fp32 sums, in plain loops.

#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "cuda_sim/device.h"
#include "framework/core/half.h"

struct cublasLtContext {};

namespace zerolab::cuda_sim {
namespace {

/// What lies in the library's opaque structures.
struct Layout {
  cudaDataType_t type;
  int64_t rows;
  int64_t cols;
  int64_t leading;

  size_t element_bytes() const { return type == CUDA_R_32F ? 4 : 2; }
  /// From the first element to the end of the last.
  size_t bytes() const {
    return static_cast<size_t>((cols - 1) * leading + rows) * element_bytes();
  }
};
struct Description {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  cublasOperation_t transposed_a = CUBLAS_OP_N;
  cublasOperation_t transposed_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  int32_t bias_type = -1;  // D's
  void* pre_activation = nullptr;
  int64_t pre_activation_leading = 0;

  bool has(cublasLtEpilogue_t part) const { return (epilogue & part) != 0; }
};
/// Of GELU_AUX and GELU_AUX_BIAS: writes what the GELU is taken of.
constexpr auto kAux =
    static_cast<cublasLtEpilogue_t>(CUBLASLT_EPILOGUE_GELU_AUX & ~CUBLASLT_EPILOGUE_GELU);
/// Also what an algorithm needs: the library's is one that makes full use of them.
struct Preference {
  uint64_t workspace_bytes = 0;
  uint32_t alignment_a = 256;
  uint32_t alignment_b = 256;
  uint32_t alignment_c = 256;
  uint32_t alignment_d = 256;
};
constexpr uint64_t kWorkspaceBytes = 4096;

/// Placed into the library's opaque structure, and seen in it.
template <typename T, typename Opaque>
cublasStatus_t create(Opaque** made, const T& value) {
  static_assert(sizeof(T) <= sizeof(Opaque) && std::is_trivially_copyable_v<T>);
  *made = new Opaque{};
  std::memcpy(static_cast<void*>(*made), &value, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}
template <typename T, typename Opaque>
T get(const Opaque* opaque) {
  T value;
  std::memcpy(static_cast<void*>(&value), opaque, sizeof(T));
  return value;
}
template <typename Opaque>
cublasStatus_t destroy(Opaque* opaque) {
  delete opaque;
  return CUBLAS_STATUS_SUCCESS;
}

/// Sets a member of the `T` in `opaque` from an attribute's bytes.
template <typename T, typename Opaque, typename Member>
cublasStatus_t set(Opaque* opaque, Member T::*member, const void* value, size_t bytes) {
  if (bytes != sizeof(Member)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  T changed = get<T>(opaque);
  std::memcpy(&(changed.*member), value, bytes);
  std::memcpy(static_cast<void*>(opaque), &changed, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

/// Calls the body with a value of the C++ type.
template <typename Body>
void with_type(cudaDataType_t type, Body&& body) {
  switch (type) {
    case CUDA_R_16BF:
      return body(BFloat16{});
    case CUDA_R_16F:
      return body(Float16{});
    default:
      return body(float{});
  }
}

bool is_supported(cudaDataType_t type) {
  return type == CUDA_R_32F || type == CUDA_R_16BF || type == CUDA_R_16F;
}

/// `rows` x `cols` of a matrix, or of its transpose, as row-major floats.
std::vector<float> load(const void* matrix, const Layout& layout, bool transposed) {
  const int64_t rows = transposed ? layout.cols : layout.rows;
  const int64_t cols = transposed ? layout.rows : layout.cols;
  std::vector<float> out(static_cast<size_t>(rows * cols));
  with_type(layout.type, [&]<typename T>(T) {
    const auto* elements = static_cast<const T*>(matrix);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) {
        out[static_cast<size_t>(i * cols + j)] = static_cast<float>(
            transposed ? elements[i * layout.leading + j] : elements[j * layout.leading + i]);
      }
    }
  });
  return out;
}

/// Of a finite number: to 10 bits of fraction, ties away from zero.
float to_tf32(float x) {
  return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + 0x1000U) & ~0x1FFFU);
}

float gelu(float x) {
  return 0.5F * x * (1.0F + std::tanh(0.7978845608F * (x + 0.044715F * x * x * x)));
}

/// One product: D = alpha · op(A) · op(B) + beta · C (+ bias along D's rows), or the GELU of that.
struct Product {
  Description description;
  Layout a, b, c, d;

  bool uses_tf32() const { return description.compute == CUBLAS_COMPUTE_32F_FAST_TF32; }
  int64_t inner() const { return description.transposed_a == CUBLAS_OP_N ? a.cols : a.rows; }

  size_t pre_activation_bytes() const {
    return Layout{d.type, d.rows, d.cols, description.pre_activation_leading}.bytes();
  }

  cublasStatus_t check() const {
    const bool tn_a = description.transposed_a != CUBLAS_OP_N;
    const bool tn_b = description.transposed_b != CUBLAS_OP_N;
    if ((description.compute != CUBLAS_COMPUTE_32F && !uses_tf32()) ||
        description.scale != CUDA_R_32F || a.type != b.type || c.type != d.type ||
        (d.type != a.type && d.type != CUDA_R_32F) ||
        (description.epilogue & ~(CUBLASLT_EPILOGUE_DEFAULT | CUBLASLT_EPILOGUE_GELU_AUX_BIAS)) !=
            0) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (description.has(kAux) && (description.pre_activation_leading < d.rows ||
                                  description.pre_activation_leading % 8 != 0)) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    const bool fits = (tn_a ? a.cols : a.rows) == d.rows && (tn_b ? b.rows : b.cols) == d.cols &&
                      (tn_b ? b.cols : b.rows) == inner() && c.rows == d.rows && c.cols == d.cols;
    return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  }

  void run(float alpha, const void* A, const void* B, float beta, const void* C, void* D) const {
    std::vector<float> left = load(A, a, description.transposed_a != CUBLAS_OP_N);
    std::vector<float> right = load(B, b, description.transposed_b != CUBLAS_OP_N);
    if (uses_tf32()) {
      std::transform(left.begin(), left.end(), left.begin(), to_tf32);
      std::transform(right.begin(), right.end(), right.begin(), to_tf32);
    }
    std::vector<float> row(static_cast<size_t>(d.cols));
    const bool has_bias = description.has(CUBLASLT_EPILOGUE_BIAS);
    const cudaDataType_t bias_type =
        description.bias_type < 0 ? d.type : static_cast<cudaDataType_t>(description.bias_type);
    const std::vector<float> bias =
        has_bias ? load(description.bias, {bias_type, d.rows, 1, d.rows}, false)
                 : std::vector<float>(static_cast<size_t>(d.rows), 0.0F);
    with_type(d.type, [&]<typename T>(T) {
      const auto* before = static_cast<const T*>(C);
      auto* out = static_cast<T*>(D);
      auto* pre_activation = static_cast<T*>(description.pre_activation);
      for (int64_t i = 0; i < d.rows; ++i) {
        std::fill(row.begin(), row.end(), 0.0F);
        for (int64_t k = 0; k < inner(); ++k) {
          const float factor = left[static_cast<size_t>(i * inner() + k)];
          const float* other = &right[static_cast<size_t>(k * d.cols)];
          for (int64_t j = 0; j < d.cols; ++j) {
            row[static_cast<size_t>(j)] += factor * other[j];
          }
        }
        for (int64_t j = 0; j < d.cols; ++j) {
          float value = alpha * row[static_cast<size_t>(j)];
          if (beta != 0.0F) {
            value += beta * static_cast<float>(before[j * c.leading + i]);
          }
          value += bias[static_cast<size_t>(i)];
          if (description.has(kAux)) {
            pre_activation[j * description.pre_activation_leading + i] = static_cast<T>(value);
          }
          const bool has_gelu = description.has(CUBLASLT_EPILOGUE_GELU);
          out[j * d.leading + i] = static_cast<T>(has_gelu ? gelu(value) : value);
        }
      }
    });
  }
};

Product product_of(cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
                   cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  return {get<Description>(description), get<Layout>(a), get<Layout>(b), get<Layout>(c),
          get<Layout>(d)};
}

}  // namespace
}  // namespace zerolab::cuda_sim

using namespace zerolab::cuda_sim;

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy(handle); }

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "invalid value";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "not supported";
    default:
      return "execution failed";
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t leading) {
  if (!is_supported(type)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (rows == 0 || cols == 0 || leading < static_cast<int64_t>(rows)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return create(layout,
                Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(cols), leading});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  return create(description, Description{.compute = compute, .scale = scale});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  return destroy(description);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(description, &Description::transposed_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(description, &Description::transposed_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(description, &Description::epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(description, &Description::bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return set(description, &Description::bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(description, &Description::pre_activation, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(description, &Description::pre_activation_leading, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference, Preference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(preference, &Preference::workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(preference, &Preference::alignment_a, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(preference, &Preference::alignment_b, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(preference, &Preference::alignment_c, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(preference, &Preference::alignment_d, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  const cublasStatus_t status = product_of(description, a, b, c, d).check();
  *found = status == CUBLAS_STATUS_SUCCESS && requested > 0 ? 1 : 0;
  if (*found == 1) {
    auto algorithm = get<Preference>(preference);
    algorithm.workspace_bytes = std::min(algorithm.workspace_bytes, kWorkspaceBytes);
    results[0] = {};
    std::memcpy(&results[0].algo, &algorithm, sizeof(algorithm));
    results[0].workspaceSize = algorithm.workspace_bytes;
  }
  return status;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* A, cublasLtMatrixLayout_t a, const void* B,
                              cublasLtMatrixLayout_t b, const void* beta, const void* C,
                              cublasLtMatrixLayout_t c, void* D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* chosen, void* workspace,
                              size_t workspace_bytes, cudaStream_t handle) {
  const Product product = product_of(description, a, b, c, d);
  const cublasStatus_t status = product.check();
  if (status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  const auto algorithm = get<Preference>(chosen);
  const float alpha_value = *static_cast<const float*>(alpha);
  const float beta_value = *static_cast<const float*>(beta);
  const cudaError_t error = call([&](Device& device) {
    CUstream_st* stream = device.find(handle);
    const Memory& memory = device.memory;
    const auto usable = [&](const void* pointer, size_t bytes, uint64_t alignment) {
      return memory.contains(pointer, bytes) &&
             reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
    };
    if (stream == nullptr || !usable(A, product.a.bytes(), algorithm.alignment_a) ||
        !usable(B, product.b.bytes(), algorithm.alignment_b) ||
        !usable(C, product.c.bytes(), algorithm.alignment_c) ||
        !usable(D, product.d.bytes(), algorithm.alignment_d) ||
        (product.description.has(kAux) &&
         !usable(product.description.pre_activation, product.pre_activation_bytes(), 16)) ||
        workspace_bytes < algorithm.workspace_bytes ||
        (workspace_bytes > 0 && !usable(workspace, workspace_bytes, 16))) {
      return cudaErrorInvalidValue;
    }
    device.enqueue(stream, [=] {
      if (algorithm.workspace_bytes > 0) {  // it is used, whatever for
        std::memset(workspace, 0xFF, algorithm.workspace_bytes);
      }
      product.run(alpha_value, A, B, beta_value, C, D);
    });
    return cudaSuccess;
  });
  return error == cudaSuccess             ? CUBLAS_STATUS_SUCCESS
         : error == cudaErrorInvalidValue ? CUBLAS_STATUS_INVALID_VALUE
                                          : CUBLAS_STATUS_EXECUTION_FAILED;
}

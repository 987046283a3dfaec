#include <cublasLt.h>
#include <gtest/gtest.h>

#include <vector>

#include "cuda_sim/simulator.h"
#include "cuda_sim/test_device.h"
#include "framework/core/half.h"

namespace zerolab::cuda_sim {
namespace {

/// One product with everything it needs, column-major as the library's.
struct Product {
  Product(cudaDataType type, int m, int n, int k, bool transposed_a, bool transposed_b) {
    cublasLtCreate(&handle);
    cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    set(CUBLASLT_MATMUL_DESC_TRANSA, transposed_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, transposed_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    cublasLtMatrixLayoutCreate(&a, type, transposed_a ? k : m, transposed_a ? m : k,
                               transposed_a ? k : m);
    cublasLtMatrixLayoutCreate(&b, type, transposed_b ? n : k, transposed_b ? k : n,
                               transposed_b ? n : k);
    cublasLtMatrixLayoutCreate(&d, type, m, n, m);
    cublasLtMatmulPreferenceCreate(&preference);
    const uint64_t bytes = 1024;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &bytes, sizeof(bytes));
  }
  ~Product() {
    cublasLtMatmulPreferenceDestroy(preference);
    for (const cublasLtMatrixLayout_t layout : {a, b, d}) {
      cublasLtMatrixLayoutDestroy(layout);
    }
    cublasLtMatmulDescDestroy(description);
    cublasLtDestroy(handle);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  }
  cublasStatus_t run(const void* A, const void* B, float beta, void* D) {
    cublasLtMatmulHeuristicResult_t result = {};
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, description, a, b, d, d,
                                                                 preference, 1, &result, &found);
    const float alpha = 1.0F;
    return status != CUBLAS_STATUS_SUCCESS
               ? status
               : cublasLtMatmul(handle, description, &alpha, A, a, B, b, &beta, D, d, D, d,
                                &result.algo, workspace.data(), 1024, nullptr);
  }

  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  DeviceArray<float> workspace = DeviceArray<float>(256);
};

// [1 3 5; 2 4 6] · [1; 10; 100], in each way that the factors can lie.
TEST(CudaSimCublasLt, MultipliesEveryLayout) {
  reset(1);
  for (const bool transposed_a : {false, true}) {
    for (const bool transposed_b : {false, true}) {
      Product product(CUDA_R_32F, 2, 2, 3, transposed_a, transposed_b);
      const DeviceArray<float> a(transposed_a ? std::vector<float>({1, 3, 5, 2, 4, 6})
                                              : std::vector<float>({1, 2, 3, 4, 5, 6}));
      const DeviceArray<float> b(transposed_b ? std::vector<float>({1, -1, 10, -10, 100, -100})
                                              : std::vector<float>({1, 10, 100, -1, -10, -100}));
      const DeviceArray<float> bias(std::vector<float>({0.25F, 0.5F}));
      const DeviceArray<float> d(4);  // NaN: not read while beta is 0
      product.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias.data()));
      EXPECT_EQ(product.run(a.data(), b.data(), 0.0F, d.data()), CUBLAS_STATUS_SUCCESS);
      EXPECT_EQ(d.values(), std::vector<float>({531.25F, 642.5F, -530.75F, -641.5F}));
    }
  }
}

TEST(CudaSimCublasLt, AccumulatesInFp32AndRoundsOnce) {
  reset(2);
  Product product(CUDA_R_16BF, 1, 1, 3, true, false);
  const auto array = [](std::vector<float> values) {
    return std::vector<BFloat16>(values.begin(), values.end());
  };
  const DeviceArray<BFloat16> a(array({256, 1, 1})), b(array({1, 1, 1})), d(array({2}));
  EXPECT_EQ(product.run(a.data(), b.data(), 1.0F, d.data()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(static_cast<float>(d.values()[0]), 260.0F);  // 256 + 1 alone rounds to 256
}

TEST(CudaSimCublasLt, RefusesWhatDoesNotFit) {
  reset(3);
  Product product(CUDA_R_32F, 2, 2, 3, false, false);
  const DeviceArray<float> small(4), large(6);
  EXPECT_EQ(product.run(small.data(), large.data(), 0.0F, small.data()),
            CUBLAS_STATUS_INVALID_VALUE);  // outside of its allocation
  EXPECT_EQ(product.run(large.data() + 1, large.data(), 0.0F, small.data()),
            CUBLAS_STATUS_INVALID_VALUE);
  product.set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  EXPECT_EQ(product.run(large.data(), large.data(), 0.0F, small.data()),
            CUBLAS_STATUS_INVALID_VALUE);
}

}  // namespace
}  // namespace zerolab::cuda_sim

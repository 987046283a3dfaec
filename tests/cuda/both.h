#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "framework/cuda/backend.h"
#include "framework/tensor/backend.h"
#include "tests/cuda/device.h"
#include "tests/framework/test_rank.h"

namespace zerolab {

/// One rank on the device.
struct CudaRank {
  explicit CudaRank(const CudaOptions& options = {})
      : backend(make_cuda_backend(options)), context({.poison = true}, *backend) {}

  Tensor from_host(const Shape& shape, DType dtype, std::span<const std::byte> bytes) {
    const Tensor out = Tensor::empty(context, shape, dtype);
    backend->copy_from_host(stream, bytes, out);
    return out;
  }
  /// After all that is on the stream.
  std::vector<std::byte> to_host(const Tensor& tensor) {
    std::vector<std::byte> bytes(tensor.bytes());
    stream.synchronize();
    backend->copy_to_host(tensor, bytes);
    return bytes;
  }

  std::unique_ptr<Backend> backend;
  RankContext context;
  Stream& stream = context.compute();
};

/// One tensor, on the plain backend and on the device.
struct Twin {
  Tensor plain;
  Tensor cuda;

  Twin range(int64_t begin, int64_t numel) const {
    return {plain.range(begin, numel), cuda.range(begin, numel)};
  }
};

/// A rank of the plain backend and one of the device, which do the same.
struct Both {
  explicit Both(uint64_t seed = 0, const CudaOptions& options = {}) : cuda(options) {
    set_device_seed(seed);
  }
  ~Both() { EXPECT_NO_THROW(check_device_memory()); }
  Both(const Both&) = delete;
  Both& operator=(const Both&) = delete;

  Twin twin(const Tensor& tensor) {
    const std::span bytes(tensor.raw(), static_cast<size_t>(tensor.bytes()));
    return {tensor, cuda.from_host(tensor.shape(), tensor.dtype(), bytes)};
  }
  /// Normally distributed numbers, others for another name.
  Twin normal(const Shape& shape, DType dtype, std::string_view name) {
    return twin(plain.normal(shape, dtype, name));
  }
  template <typename T>
  Twin of(const Shape& shape, const std::vector<T>& values) {
    return twin(plain.tensor(shape, values));
  }
  /// Uninitialised.
  Twin empty(const Shape& shape, DType dtype) {
    return {Tensor::empty(plain.context, shape, dtype), Tensor::empty(cuda.context, shape, dtype)};
  }
  /// Calls `body(backend, stream, on)` for either, where `on` picks its tensor of a twin.
  template <typename Body>
  void run(Body&& body) {
    body(*plain.backend, plain.context.compute(), [](const Twin& twin) { return twin.plain; });
    body(*cuda.backend, cuda.stream, [](const Twin& twin) { return twin.cuda; });
  }
  /// What the device computed, as a tensor of the plain rank.
  Tensor computed(const Twin& twin) {
    const Tensor out = Tensor::empty_like(twin.plain);
    const std::vector<std::byte> bytes = cuda.to_host(twin.cuda);
    std::copy(bytes.begin(), bytes.end(), out.raw());
    return out;
  }

  void expect_same_bits(const Twin& twin) {
    const Tensor got = computed(twin);
    const int64_t size = size_of(got.dtype());
    for (int64_t i = 0; i < got.numel(); ++i) {
      ASSERT_EQ(std::memcmp(got.raw() + i * size, twin.plain.raw() + i * size, size), 0)
          << name_of(got.dtype()) << " element " << i << " of " << got.numel();
    }
  }
  /// Within `relative` of the expected number and `absolute` beside it; for 16 bits, one rounding
  /// more.
  void expect_close(const Twin& twin, double relative, double absolute) {
    const std::vector<double> got = plain.numbers(computed(twin));
    const std::vector<double> expected = plain.numbers(twin.plain);
    const DType dtype = twin.plain.dtype();
    relative += dtype == DType::kBFloat16 ? 0x1p-7 : dtype == DType::kFloat16 ? 0x1p-10 : 0.0;
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], std::abs(expected[i]) * relative + absolute)
          << name_of(dtype) << " element " << i << " of " << got.size();
    }
  }

  TestRank plain;
  CudaRank cuda;
};

/// Tests over the device's dtypes, and orders in which a simulated device works.
class CudaKernels : public testing::TestWithParam<std::tuple<DType, int>> {
 protected:
  CudaKernels() : dtype(std::get<0>(GetParam())), both(std::get<1>(GetParam())) {}
  const DType dtype;
  Both both;
};

inline std::string name_of_case(const testing::TestParamInfo<std::tuple<DType, int>>& info) {
  return std::string(name_of(std::get<0>(info.param))) + "_seed" +
         std::to_string(std::get<1>(info.param));
}
inline auto all_cases() {
  return testing::Combine(testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                          testing::Values(1, 2, 3));
}

}  // namespace zerolab

#include "framework/cuda/backend.h"

#include <numeric>

#include "framework/core/error.h"
#include "tests/cuda/both.h"

namespace zerolab {
namespace {

TEST(CudaBackend, FindsDevices) {
  const cuda::Devices devices = cuda::find_devices();
  ASSERT_TRUE(devices.is_available()) << devices.missing;
  EXPECT_FALSE(devices.found[0].name.empty());
  EXPECT_GT(devices.found[0].memory, 0);
  EXPECT_LE(devices.found[0].free_memory, devices.found[0].memory);
  EXPECT_EQ(make_cuda_backend()->name(), "cuda");
}

TEST(CudaBackend, TheCallerMayReuseItsMemoryAtOnce) {
  set_device_seed(4);
  CudaRank rank;
  // More than the stream's pinned memory holds.
  std::vector<int32_t> values(3'000'000);
  std::iota(values.begin(), values.end(), 0);
  const std::vector<int32_t> expected = values;
  const Tensor large = rank.from_host({std::ssize(values)}, DType::kInt32,
                                      std::as_bytes(std::span<const int32_t>(values)));
  values.assign(values.size(), -1);
  const std::vector<std::byte> got = rank.to_host(large);
  EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size()), 0);
}

}  // namespace
}  // namespace zerolab

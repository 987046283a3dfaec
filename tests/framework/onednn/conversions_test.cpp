#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "tests/framework/onednn/half_comparison.h"

namespace zerolab::test::onednn {
namespace {

INSTANTIATE_TEST_SUITE_P(Types, OnednnHalf, ::testing::Values(DType::kBFloat16, DType::kFloat16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(OnednnHalf, WideningHasTheBitsOfTheScalarConversion) {
  constexpr int64_t kPatterns = 65536;
  for (const bool cut : {false, true}) {
    Rank rank(make_onednn_backend(), 1);
    const Tensor source = Tensor::empty(rank.context, Shape{kPatterns}, half());
    const Tensor out = Tensor::empty(rank.context, Shape{kPatterns}, kFloat32);
    for (int64_t i = 0; i < kPatterns; ++i) {
      source.data<uint16_t>()[i] = static_cast<uint16_t>(i);
    }
    for_cuts(kPatterns, cut, [&](int64_t begin, int64_t n) {
      rank.backend->copy(rank.stream(), source.range(begin, n), out.range(begin, n));
    });
    for (int64_t i = 0; i < kPatterns; ++i) {
      const float expected = with_half(half(), [&]<typename T>(T) {
        return static_cast<float>(std::bit_cast<T>(static_cast<uint16_t>(i)));
      });
      ASSERT_EQ(std::bit_cast<uint32_t>(out.data<float>()[i]), std::bit_cast<uint32_t>(expected))
          << i;
    }
  }
}

TEST_P(OnednnHalf, RoundingHasTheBitsOfTheScalarConversion) {
  // Every number of 16 bits, the ties between neighbours, what is just beside either, and floats of
  // all kinds: among them subnormal ones, too large ones and signalling NaNs.
  std::vector<uint32_t> patterns;
  const auto add = [&](float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    patterns.insert(patterns.end(), {bits - 1, bits, bits + 1});
  };
  with_half(half(), [&]<typename T>(T) {
    for (int i = 0; i < 65535; ++i) {
      const auto value = static_cast<float>(std::bit_cast<T>(static_cast<uint16_t>(i)));
      const auto next = static_cast<float>(std::bit_cast<T>(static_cast<uint16_t>(i + 1)));
      add(value);
      add(value * 0.5F + next * 0.5F);
    }
  });
  for (uint32_t i = 0; i < 1000003; ++i) {
    patterns.push_back(i * 2654435761U);
  }
  for (uint32_t i = 0; i < 40; ++i) {
    patterns.push_back(i);
    patterns.push_back(0x7F800000U + i);
    patterns.push_back(0xFF800000U + i);
    patterns.push_back(0x80000000U + i);
  }
  const auto count = static_cast<int64_t>(patterns.size());
  for (const bool cut : {false, true}) {
    Rank rank(make_onednn_backend(), 1);
    const Tensor source = Tensor::empty(rank.context, Shape{count}, kFloat32);
    std::memcpy(source.raw(), patterns.data(), source.bytes());
    const Tensor out = Tensor::empty(rank.context, Shape{count}, half());
    for_cuts(count, cut, [&](int64_t begin, int64_t n) {
      rank.backend->copy(rank.stream(), source.range(begin, n), out.range(begin, n));
    });
    for (int64_t i = 0; i < count; ++i) {
      const auto value = std::bit_cast<float>(patterns[i]);
      const auto expected = with_half(
          half(), [&]<typename T>(T) { return std::bit_cast<uint16_t>(static_cast<T>(value)); });
      ASSERT_EQ(out.data<uint16_t>()[i], expected) << std::hex << patterns[i];
    }
  }
}

}  // namespace
}  // namespace zerolab::test::onednn

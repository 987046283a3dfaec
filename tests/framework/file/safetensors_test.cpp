#include "framework/file/safetensors.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>

#include "framework/core/error.h"
#include "tests/framework/file/written_safetensors.h"

namespace zerolab {
namespace {

using test::bytes_of;

class Safetensors : public test::WrittenSafetensors {
 protected:
  /// What a refused file is blamed for.
  std::string refusal() {
    try {
      SafetensorsFile file(path());
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path()), std::string::npos) << error.what();
      return error.what();
    }
    return "accepted";
  }
  void expect_refused(const std::string& header, const std::string& data,
                      const std::string& because) {
    write(header, data);
    const std::string message = refusal();
    EXPECT_NE(message.find(because), std::string::npos) << header << "\n" << message;
  }
};

TEST_F(Safetensors, ReadsRecords) {
  write(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}  )",
      bytes_of({1, 2, 3}));
  SafetensorsFile file(path());
  EXPECT_EQ(file.records().size(), 2U);
  EXPECT_EQ(file.read("a"), (std::vector<float>{1}));
  EXPECT_EQ(file.read("b"), (std::vector<float>{2, 3}));
  EXPECT_THROW(file.read("c"), Error);
}

/// Each 16-bit pattern is one number of fp32.
TEST_F(Safetensors, Reads16BitRecordsExactly) {
  std::string bytes;
  for (int bits = 0; bits < 1 << 16; ++bits) {
    bytes += static_cast<char>(bits & 0xFF);
    bytes += static_cast<char>(bits >> 8);
  }
  write(R"({"b":{"dtype":"BF16","shape":[65536],"data_offsets":[0,131072]},)"
        R"("h":{"dtype":"F16","shape":[256,256],"data_offsets":[131072,262144]}})",
        bytes + bytes);
  SafetensorsFile file(path());
  const std::vector<float> wide = file.read("b");
  const std::vector<float> half = file.read("h");
  for (uint32_t bits = 0; bits < 1 << 16; ++bits) {
    ASSERT_EQ(std::bit_cast<uint32_t>(wide[bits]), bits << 16);
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const auto fraction = static_cast<float>(bits & 1023);
    const float magnitude =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent < 31) {
      ASSERT_EQ(half[bits], bits >> 15 != 0 ? -magnitude : magnitude);
    } else {
      ASSERT_EQ(std::isinf(half[bits]), fraction == 0);
      ASSERT_EQ(std::isnan(half[bits]), fraction != 0);
    }
  }
  std::vector<float> range(3);
  file.read_range("h", 0x3C00, range);
  EXPECT_EQ(range, (std::vector<float>{1, 1 + 0x1p-10F, 1 + 0x1p-9F}));
}

TEST_F(Safetensors, RefusesHostileFiles) {
  EXPECT_NE(refusal().find("cannot open"), std::string::npos);
  write("{}", "", 3);
  EXPECT_NE(refusal().find("cut off"), std::string::npos);
  write("{}", "", UINT64_MAX);
  EXPECT_NE(refusal().find("cut off"), std::string::npos);
  std::ofstream(path(), std::ios::trunc) << "abc";
  EXPECT_NE(refusal().find("no safetensors file"), std::string::npos);

  const std::string one = bytes_of({1});
  expect_refused("{", "", "broken");
  expect_refused("[]", "", "broken");
  expect_refused(std::string(100'000, '['), "", "nests deeper");
  expect_refused(R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", one, "broken");
  expect_refused(R"({"a":7})", "", "broken at record 'a'");
  expect_refused(R"({"a":{"dtype":"F32","shape":[1]}})", one, "broken at record 'a'");
  expect_refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", one, "two numbers");
  expect_refused(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", one, "no size");
  expect_refused(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", one, "no size");
  expect_refused(R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", one, "unknown dtype");
  expect_refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", one, "wrong size");
  expect_refused(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})",
                 one, "wrong size");
  expect_refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", one,
                 "passes the end");
  expect_refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", one,
                 "passes the end");
  expect_refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]}})",
                 one, "no size");
  expect_refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                 R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                 one, "overlaps");
  expect_refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", one + one,
                 "no record names");
}

}  // namespace
}  // namespace zerolab

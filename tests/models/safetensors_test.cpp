#include "models/safetensors.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "framework/core/error.h"
#include "models/gpt.h"
#include "tests/framework/test_rank.h"

namespace zerolab {
namespace {

/// A file of its own for each test, removed after it.
class Safetensors : public testing::Test {
 protected:
  Safetensors()
      : path_(std::filesystem::temp_directory_path() /
              (std::string("zerolab_") +
               testing::UnitTest::GetInstance()->current_test_info()->name() + ".safetensors")) {}
  ~Safetensors() override { std::filesystem::remove(path_); }

  void write(const std::string& header, const std::string& data) {
    write(header, data, header.size());
  }
  void write(const std::string& header, const std::string& data, uint64_t claimed_length) {
    std::ofstream file(path_, std::ios::binary);
    for (int i = 0; i < 8; ++i) {
      file.put(static_cast<char>(claimed_length >> (8 * i)));
    }
    file << header << data;
  }
  /// What a refused file is blamed for.
  std::string refusal() {
    try {
      SafetensorsFile file(path_.string());
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path_.string()), std::string::npos) << error.what();
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
  std::string path() const { return path_.string(); }

 private:
  const std::filesystem::path path_;
};

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

/// The records of a file that is being written.
struct Writer {
  void add(const std::string& name, const std::vector<int64_t>& shape,
           const std::vector<float>& values) {
    const size_t begin = data.size();
    data += bytes_of(values);
    header +=
        fmt::format(R"({}"{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})",
                    header.empty() ? "" : ",", name, fmt::join(shape, ","), begin, data.size());
  }
  std::string header;
  std::string data;
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

TEST_F(Safetensors, LoadsAGptUnderEitherNaming) {
  const GptConfig config{.n_layer = 1, .n_head = 1, .n_embd = 2, .block_size = 3, .vocab_size = 5};
  for (const std::string prefix : {"", "transformer."}) {
    TestRank rank;
    const Gpt source({rank.context, 1, DType::kFloat32, ""}, config);
    const Gpt target({rank.context, 2, DType::kFloat32, ""}, config);
    Writer writer;
    for (const Parameter* parameter : source.parameters()) {
      std::vector<int64_t> shape;
      for (int axis = 0; axis < parameter->shape().rank(); ++axis) {
        shape.push_back(parameter->shape()[axis]);
      }
      writer.add(prefix + parameter->name(), shape, parameter->value().to_host<float>());
    }
    writer.add(prefix + "h.0.attn.bias", {1, 1, 1, 1}, {1});
    writer.add("lm_head.weight", {5, 2}, source.parameters()[0]->value().to_host<float>());
    write("{" + writer.header + "}", writer.data);
    load_weights(path(), target.parameters());
    for (size_t i = 0; i < source.parameters().size(); ++i) {
      EXPECT_EQ(target.parameters()[i]->value().to_host<float>(),
                source.parameters()[i]->value().to_host<float>());
    }
  }
}

TEST_F(Safetensors, RoundsInto16BitParameters) {
  write(R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
        bytes_of({1 + 0x1p-8F, 1 + 0x1p-11F, -0.5F, 1e5F}));
  TestRank rank;
  Parameter narrow("w", rank.normal({4}, DType::kBFloat16, "w"));
  load_weights(path(), {&narrow});
  EXPECT_EQ(rank.numbers(narrow.value()), (std::vector<double>{1, 1, -0.5, 99840}));
  Parameter half("w", rank.normal({4}, DType::kFloat16, "w"));
  load_weights(path(), {&half});
  EXPECT_EQ(rank.numbers(half.value()),
            (std::vector<double>{1 + 0x1p-8, 1, -0.5, std::numeric_limits<double>::infinity()}));
}

TEST_F(Safetensors, RefusesWeightsOfAnotherModel) {
  TestRank rank;
  Parameter w("w", rank.tensor<float>({1, 2}, {7, 8}));
  const auto message_of = [&](const std::string& header) {
    write(header, bytes_of({1, 2}));
    try {
      load_weights(path(), {&w});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const std::string record = R"({"dtype":"F32","shape":[1,2],"data_offsets":[0,8]})";
  EXPECT_NE(message_of(R"({"v":)" + record + "}").find("parameter 'w'"), std::string::npos);
  EXPECT_NE(message_of(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})")
                .find("got [2], expected [1, 2]"),
            std::string::npos);
  EXPECT_NE(message_of(R"({"w":{"dtype":"I32","shape":[1,2],"data_offsets":[0,8]}})")
                .find("expected F32"),
            std::string::npos);
  EXPECT_NE(
      message_of(R"({"w":)" + record + R"(,"v":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}})")
          .find("record 'v'"),
      std::string::npos);
  EXPECT_EQ(w.value().to_host<float>(), (std::vector<float>{7, 8}));
  EXPECT_EQ(message_of(R"({"w":)" + record + "}"), "accepted");
  EXPECT_EQ(w.value().to_host<float>(), (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace zerolab

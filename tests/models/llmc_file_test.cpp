#include "models/llmc_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "framework/core/error.h"
#include "framework/core/half.h"
#include "tests/data/test_files.h"

namespace zerolab {
namespace {

const std::string kLlmcFile = SOURCE_FOLDER "/tests/spine/reference/data/gpt2/tied/model.bin";
constexpr size_t kHeaderBytes = 1024;

std::string reference() {
  std::ifstream file(kLlmcFile, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The reference with one number of its header changed.
std::string with_field(int index, int32_t value) {
  std::string bytes = reference();
  std::memcpy(&bytes[index * sizeof(value)], &value, sizeof(value));
  return bytes;
}

std::string refusal(const std::string& bytes) {
  const data::TempDir folder;
  const std::string path = folder.write("model.bin", bytes);
  return data::message_of<Error>([&] { LlmcFile file(path); });
}

void expect_refused(const std::string& bytes, const std::string& because) {
  const std::string message = refusal(bytes);
  EXPECT_NE(message.find(because), std::string::npos) << message;
}

TEST(LlmcFile, RefusesHostileFiles) {
  const std::string whole = reference();
  expect_refused(whole.substr(0, kHeaderBytes - 1), "cut off");
  expect_refused(whole.substr(0, kHeaderBytes), "elements for wte.weight");
  expect_refused(whole.substr(0, whole.size() - 1), "elements for ln_f.bias");
  expect_refused(whole + '\0', "longer than its header says");
  expect_refused(with_field(1, 1), "another version; got 1, expected 3 (fp32) or 5 (bf16)");
  expect_refused(with_field(1, 5), "longer than its header says");
  for (const int field : {2, 3, 4, 5, 6}) {
    expect_refused(with_field(field, 0), "describes no model");
    expect_refused(with_field(field, -1), "describes no model");
  }
  for (const int field : {2, 4, 6, 7}) {
    expect_refused(with_field(field, INT32_MAX), "cut off or its header lies");
  }
  expect_refused(with_field(3, 129), "describes no model");  // more than the padded vocabulary
  expect_refused(with_field(7, 127), "longer than its header says");
  expect_refused(with_field(7, 129), "got 0 elements for ln_f.bias, expected 16");
}

TEST(LlmcFile, ReadsBf16ExactlyAndInRanges) {
  const std::string whole = reference();
  std::string half = whole.substr(0, kHeaderBytes);
  const int32_t version = 5;
  std::memcpy(&half[4], &version, sizeof(version));
  for (size_t at = kHeaderBytes; at < whole.size(); at += sizeof(float)) {
    float value = 0.0F;
    std::memcpy(&value, &whole[at], sizeof(value));
    const BFloat16 rounded(value);
    half.append(reinterpret_cast<const char*>(&rounded), sizeof(rounded));
  }
  const data::TempDir folder;
  LlmcFile expected(kLlmcFile);
  LlmcFile got(folder.write("half.bin", half));
  EXPECT_EQ(got.property("n_head"), 2);
  EXPECT_EQ(got.shape_of("wte.weight"), (std::vector<int64_t>{53, 16}));
  EXPECT_EQ(got.shape_of("h.1.mlp.c_proj.weight"), (std::vector<int64_t>{64, 16}));
  EXPECT_THROW(got.shape_of("h.2.ln_1.bias"), Error);
  for (const std::string& name : expected.names()) {
    std::vector<float> values = expected.read(name);
    std::ranges::transform(values, values.begin(),
                           [](float value) { return static_cast<float>(BFloat16(value)); });
    EXPECT_EQ(got.read(name), values) << name;
    std::vector<float> range(5);
    got.read_range(name, 7, range);
    EXPECT_TRUE(std::equal(range.begin(), range.end(), values.begin() + 7)) << name;
  }
}

TEST(LlmcFile, IsToldByItsContent) {
  const data::TempDir folder;
  EXPECT_TRUE(LlmcFile::recognises(kLlmcFile));
  EXPECT_FALSE(LlmcFile::recognises(folder.path("missing")));
  EXPECT_FALSE(LlmcFile::recognises(folder.path("")));
  EXPECT_FALSE(LlmcFile::recognises(folder.write("short", "abc")));
  EXPECT_FALSE(LlmcFile::recognises(folder.write_shard("tokens.bin", {1, 2, 3})));
}

}  // namespace
}  // namespace zerolab

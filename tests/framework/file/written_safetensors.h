#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace zerolab::test {

/// A safetensors file of its own for each test, removed after it.
class WrittenSafetensors : public testing::Test {
 protected:
  WrittenSafetensors()
      : path_(std::filesystem::temp_directory_path() /
              (std::string("zerolab_") +
               testing::UnitTest::GetInstance()->current_test_info()->name() + ".safetensors")) {}
  ~WrittenSafetensors() override { std::filesystem::remove(path_); }

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
  std::string path() const { return path_.string(); }

 private:
  const std::filesystem::path path_;
};

inline std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

}  // namespace zerolab::test

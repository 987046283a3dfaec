#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace zerolab::data {

/// A folder of a test's own, removed with all it holds.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "zerolab-data-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  std::string path(std::string_view name) const { return (path_ / name).string(); }

  std::string write(std::string_view name, std::string_view content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

  /// An llm.c shard; the header may lie about the magic, the version and the number of tokens.
  std::string write_shard(std::string_view name, const std::vector<uint16_t>& tokens,
                          std::initializer_list<int32_t> header) const {
    std::vector<int32_t> ints(header);
    ints.resize(256);
    std::string content(reinterpret_cast<const char*>(ints.data()), ints.size() * sizeof(int32_t));
    content.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(uint16_t));
    return write(name, content);
  }

  std::string write_shard(std::string_view name, const std::vector<uint16_t>& tokens) const {
    return write_shard(name, tokens, {20240520, 1, static_cast<int32_t>(tokens.size())});
  }

 private:
  std::filesystem::path path_;
};

/// Karpathy's collection of Shakespeare's plays, 1,115,394 characters.
constexpr const char* kTinyShakespeare = SOURCE_FOLDER "/configs/tinyshakespeare.txt";

/// The text of the `Failure` that `action` throws; the test fails where it throws another or none.
template <typename Failure, typename Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Failure& failure) {
    return failure.what();
  } catch (const std::exception& other) {
    ADD_FAILURE() << "another exception: " << other.what();
    return "";
  }
  ADD_FAILURE() << "no exception";
  return "";
}

}  // namespace zerolab::data

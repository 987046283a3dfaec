#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/dtype.h"

namespace zerolab {

/// A file of named tensors, opened and checked as a whole. Its elements are read as fp32, a range
/// at a time, so that a large file needs little memory.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;

  const std::string& path() const { return path_; }
  virtual std::vector<std::string> names() const = 0;
  /// Throws `Error` unless there is such a tensor, of fp32, bf16 or fp16.
  virtual std::vector<int64_t> shape_of(const std::string& name) const = 0;
  /// Elements [begin, begin + out.size()) of a tensor, row-major; exact.
  virtual void read_range(const std::string& name, int64_t begin, std::span<float> out) = 0;
  std::vector<float> read(const std::string& name);
  /// A number that the file tells besides its tensors, such as "n_head"; 0: it does not say.
  virtual int64_t property(std::string_view /*name*/) const { return 0; }

 protected:
  /// Throws `Error` unless `path` is a regular file that can be read.
  explicit TensorFile(const std::string& path);
  int64_t file_bytes() const { return file_bytes_; }
  /// Throws `Error` if the file ends before `out` is full.
  void read_bytes(int64_t offset, std::span<std::byte> out);
  /// `out.size()` elements of `dtype` from byte `offset` on, widened.
  void read_floats(int64_t offset, DType dtype, std::span<float> out);

 private:
  std::string path_;
  std::ifstream file_;
  int64_t file_bytes_ = 0;
};

/// The product of extents that are not negative; the largest number where it is larger.
int64_t numel_of(const std::vector<int64_t>& shape);

}  // namespace zerolab

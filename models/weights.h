#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/autograd/parameter.h"

namespace zerolab {

/// A file of named tensors, opened and checked as a whole. Its elements are read as fp32, a range
/// at a time, so that a large file needs little memory.
class WeightFile {
 public:
  virtual ~WeightFile() = default;
  WeightFile(const WeightFile&) = delete;
  WeightFile& operator=(const WeightFile&) = delete;

  const std::string& path() const { return path_; }
  virtual std::vector<std::string> names() const = 0;
  /// Throws `Error` unless there is such a tensor, of fp32, bf16 or fp16.
  virtual std::vector<int64_t> shape_of(const std::string& name) const = 0;
  /// Elements [begin, begin + out.size()) of a tensor, row-major; exact.
  virtual void read_range(const std::string& name, int64_t begin, std::span<float> out) = 0;
  std::vector<float> read(const std::string& name);
  /// The model's number of attention heads; 0: the file does not say.
  virtual int64_t n_head() const { return 0; }

 protected:
  /// Throws `Error` unless `path` is a regular file that can be read.
  explicit WeightFile(const std::string& path);
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

/// A safetensors file or llm.c's: the content tells. Throws `Error`.
std::unique_ptr<WeightFile> open_weights(const std::string& path);

/// The name that Hugging Face's GPT2LMHeadModel gives a parameter of `Gpt`.
std::string hugging_face_name(const std::string& parameter);

/// Fills parameters (those of 16 bits by rounding) from a file that has the same names and shapes,
/// with or without the prefix "transformer.". Attention's mask buffers are skipped, and an output
/// layer equal to a tied embedding. `n_head` is compared where the file says its own; 0: unknown.
/// Throws `Error`, before any parameter has changed, when anything is missing, left over or of
/// another shape or dtype.
void load_weights(const std::string& path, const std::vector<Parameter*>& parameters,
                  int64_t n_head = 0);

}  // namespace zerolab

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "framework/file/tensor_file.h"

namespace zerolab {

/// A safetensors file: one whose header contradicts itself or the file's size is refused before any
/// of it is used.
class SafetensorsFile final : public TensorFile {
 public:
  struct Record {
    std::string dtype;  ///< as the file calls it: "F32"
    std::vector<int64_t> shape;
    int64_t begin = 0;  ///< bytes from the end of the header
    int64_t end = 0;

    int64_t numel() const { return numel_of(shape); }
  };

  /// Throws `Error`, naming the file and the record at fault.
  explicit SafetensorsFile(const std::string& path);
  const std::map<std::string, Record>& records() const { return records_; }
  /// Where the records' bytes begin in the file.
  int64_t data_begin() const { return data_begin_; }

  std::vector<std::string> names() const override;
  std::vector<int64_t> shape_of(const std::string& name) const override;
  void read_range(const std::string& name, int64_t begin, std::span<float> out) override;

 private:
  void parse_header(const std::string& header, int64_t data_bytes);
  const Record& float_record(const std::string& name) const;

  int64_t data_begin_ = 0;
  std::map<std::string, Record> records_;
};

/// What such a file begins with: its records one after another, each with its bytes' place, and
/// `metadata`. A multiple of 8 bytes.
std::string safetensors_header(
    const std::vector<std::pair<std::string, SafetensorsFile::Record>>& records,
    const std::map<std::string, std::string>& metadata = {});

}  // namespace zerolab

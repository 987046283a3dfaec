#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "framework/autograd/parameter.h"

namespace zerolab {

/// A safetensors file, opened and checked as a whole: a file whose header contradicts itself or the
/// file's size is refused before any of it is used.
class SafetensorsFile {
 public:
  struct Record {
    std::string dtype;  ///< as the file calls it: "F32"
    std::vector<int64_t> shape;
    int64_t begin = 0;  ///< bytes from the end of the header
    int64_t end = 0;

    int64_t numel() const;
  };

  /// Throws `Error`, naming the file and the record at fault.
  explicit SafetensorsFile(const std::string& path);
  const std::map<std::string, Record>& records() const { return records_; }
  /// Throws `Error` unless there is such a record and it is F32.
  const Record& float_record(const std::string& name) const;
  /// All elements of an F32 record.
  std::vector<float> read(const std::string& name);
  const std::string& path() const { return path_; }
  /// Where the records' bytes begin in the file.
  int64_t data_begin() const { return data_begin_; }

 private:
  void parse_header(const std::string& header, int64_t data_bytes);

  std::string path_;
  std::ifstream file_;
  int64_t data_begin_ = 0;
  std::map<std::string, Record> records_;
};

/// What such a file begins with: its records one after another, each with its bytes' place, and
/// `metadata`. A multiple of 8 bytes.
std::string safetensors_header(
    const std::vector<std::pair<std::string, SafetensorsFile::Record>>& records,
    const std::map<std::string, std::string>& metadata = {});

/// Fills parameters (those of 16 bits by rounding) from a file of F32 records with the same names
/// and shapes, with or without the prefix "transformer.". Attention's mask buffers are skipped, and
/// an output layer equal to a tied embedding. Throws `Error` when anything is missing, left over or
/// of another shape or dtype.
void load_weights(const std::string& path, const std::vector<Parameter*>& parameters);

}  // namespace zerolab

#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/part_file.h"

namespace zerolab::checkpoint {

/// A checkpoint that has been opened: its manifest is whole, every file that it names is there with
/// the size, header and block checksums that it says, and the pieces make up every tensor, each
/// element once. Immutable, so that all ranks share one.
class Checkpoint {
 public:
  /// Throws `Error`, naming file and record, where that is not so.
  explicit Checkpoint(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  const std::vector<std::unique_ptr<const PartFile>>& parts() const { return parts_; }

  /// A part of one tensor: elements [begin, end) lie at `offset` of part file `part`.
  struct Place {
    int64_t begin = 0;
    int64_t end = 0;
    size_t part = 0;
    int64_t offset = 0;
  };
  /// In order. Throws `Error` if there is no such tensor.
  const std::vector<Place>& places(const std::string& parameter, const std::string& tensor) const;

 private:
  std::filesystem::path folder_;
  Manifest manifest_;
  std::vector<std::unique_ptr<const PartFile>> parts_;
  std::map<std::pair<std::string, std::string>, std::vector<Place>> places_;
};

/// Reads a checkpoint, for one thread.
class Reader {
 public:
  explicit Reader(const Checkpoint& checkpoint);
  /// Elements [begin, begin + out.size()) of a tensor; throws `Error` where they are damaged or not
  /// there.
  void read(const std::string& parameter, const std::string& tensor, int64_t begin,
            std::span<float> out);
  /// Of tensors.
  int64_t bytes_read() const;

 private:
  const Checkpoint& checkpoint_;
  std::vector<PartFile::Reader> readers_;
};

/// Reads all of it; throws `Error` at the first damage.
void verify(const Checkpoint& checkpoint);

}  // namespace zerolab::checkpoint

#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace zerolab::data {

/// A regular file mapped read-only into memory for as long as the object lives; spans of it stay
/// valid when the object is moved. The file must not be cut short meanwhile.
class MappedFile {
 public:
  /// Throws `Error` with the path and the system's reason: missing, unreadable, not a regular file.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// The whole file; empty for an empty file.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace zerolab::data

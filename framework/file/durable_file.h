#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "framework/file/file.h"

namespace zerolab {

/// A file that has its name only when it is whole and on the disk: it is written as `<path>.part`,
/// and a program or machine that ends at any moment leaves either the older file or this one.
/// Faults, such as a full disk, are `Error`s with the path and the system's reason.
class DurableFile {
 public:
  explicit DurableFile(const std::filesystem::path& path);
  /// Removes what was not committed.
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(std::span<const std::byte> bytes) { file_.write(bytes); }
  void write(std::string_view text) { file_.write(text); }
  /// Writes over the first bytes.
  void rewrite_start(std::string_view bytes);
  /// Syncs the file, gives it its name in place of an older one, and syncs its folder.
  void commit();

 private:
  const std::filesystem::path path_;
  const std::filesystem::path part_;
  NewFile file_;
  bool committed_ = false;
};

}  // namespace zerolab

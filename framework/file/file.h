#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace zerolab {

/// Calls `put`, which is write(2) or pwrite(2), with what is left of `bytes` until nothing is: a
/// full disk or a signal cuts a call short. Returns 0, or the system's error.
int write_all(std::span<const std::byte> bytes,
              const std::function<int64_t(std::span<const std::byte> left)>& put);

/// A new file that is being written. Every fault is an `Error` with the path and the system's
/// reason; a file that was not finished stays half-written for its folder's owner to remove.
class NewFile {
 public:
  /// Throws where there is such a file already.
  explicit NewFile(const std::filesystem::path& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// At the end of what `write` has written.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void write_at(int64_t offset, std::span<const std::byte> bytes);
  /// Returns when the disk has it all.
  void finish();

 private:
  const std::filesystem::path path_;
  int descriptor_;
  int64_t end_ = 0;
};

/// A file that is being read, by any number of threads.
class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// Throws where the file ends before `out` is full.
  void read(int64_t offset, std::span<std::byte> out) const;
  int64_t bytes() const { return bytes_; }

 private:
  const std::filesystem::path path_;
  int descriptor_;
  int64_t bytes_ = 0;
};

/// The whole of a small file; throws where it has more than `limit` bytes.
std::string read_text(const std::filesystem::path& path, int64_t limit);
/// Returns when the disk has what was made, renamed or removed in `folder`.
void sync_folder(const std::filesystem::path& folder);
/// Renames, in place of what has the new name.
void rename_to(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace zerolab

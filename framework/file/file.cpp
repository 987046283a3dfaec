#include "framework/file/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "framework/core/error.h"

namespace zerolab {
namespace {

[[noreturn]] void fail_with(std::string_view what, const std::filesystem::path& path, int error) {
  fail("file", "cannot {} '{}': {}", what, path.string(), std::generic_category().message(error));
}

int open_or_fail(const std::filesystem::path& path, int flags, std::string_view what) {
  const int descriptor = open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    fail_with(what, path, errno);
  }
  return descriptor;
}

}  // namespace

int write_all(std::span<const std::byte> bytes,
              const std::function<int64_t(std::span<const std::byte> left)>& put) {
  while (!bytes.empty()) {
    const int64_t written = put(bytes);
    if (written >= 0) {
      bytes = bytes.subspan(written);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

NewFile::NewFile(const std::filesystem::path& path)
    : path_(path), descriptor_(open_or_fail(path, O_WRONLY | O_CREAT | O_EXCL, "make")) {}

NewFile::~NewFile() { close(descriptor_); }

void NewFile::write(std::span<const std::byte> bytes) {
  write_at(end_, bytes);
  end_ += std::ssize(bytes);
}

void NewFile::write_at(int64_t offset, std::span<const std::byte> bytes) {
  const int64_t end = offset + std::ssize(bytes);
  const int error = write_all(bytes, [&](std::span<const std::byte> left) {
    return pwrite(descriptor_, left.data(), left.size(), end - std::ssize(left));
  });
  if (error != 0) {
    fail_with("write", path_, error);
  }
}

void NewFile::finish() {
  if (fsync(descriptor_) != 0) {
    fail_with("write", path_, errno);
  }
}

OpenFile::OpenFile(const std::filesystem::path& path)
    : path_(path), descriptor_(open_or_fail(path, O_RDONLY, "open")) {
  struct stat status = {};
  if (fstat(descriptor_, &status) != 0) {
    const int error = errno;
    close(descriptor_);
    fail_with("open", path_, error);
  }
  bytes_ = status.st_size;
}

OpenFile::~OpenFile() { close(descriptor_); }

void OpenFile::read(int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = pread(descriptor_, out.data(), out.size(), offset);
    if (got > 0) {
      out = out.subspan(got);
      offset += got;
    } else if (got == 0) {
      fail("file", "'{}' is cut off at byte {}", path_.string(), offset);
    } else if (errno != EINTR) {
      fail_with("read", path_, errno);
    }
  }
}

std::string read_text(const std::filesystem::path& path, int64_t limit) {
  const OpenFile file(path);
  require(file.bytes() <= limit, "checkpoint",
          "'{}' is too large; got {} bytes, expected at most {}", path.string(), file.bytes(),
          limit);
  std::string text(file.bytes(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = open_or_fail(folder, O_RDONLY | O_DIRECTORY, "open");
  const int error = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  if (error != 0) {
    fail_with("write", folder, error);
  }
}

void rename_to(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (rename(from.c_str(), to.c_str()) != 0) {
    fail_with("rename to", to, errno);
  }
}

}  // namespace zerolab

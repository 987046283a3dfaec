#include "data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "framework/core/error.h"

namespace zerolab::data {

namespace {

/// Closes the descriptor on every way out; a mapping does not need it any longer.
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) {
      ::close(value);
    }
  }
};

[[noreturn]] void fail_with_errno(const std::string& path) {
  fail("data", "cannot read '{}'; got: {}", path, std::generic_category().message(errno));
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  // Non-blocking, so that a named pipe is refused below and not waited for.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status {};
  if (file.value < 0 || ::fstat(file.value, &status) != 0) {
    fail_with_errno(path);
  }
  if (S_ISDIR(status.st_mode)) {
    throw ConfigError("data", fmt::format("cannot read '{}'; got a folder, expected a file; name "
                                          "its files with a pattern such as '{}/*.txt'",
                                          path, path));
  }
  if (!S_ISREG(status.st_mode)) {
    throw ConfigError(
        "data",
        fmt::format("cannot read '{}'; got a device or pipe, expected a regular file", path));
  }
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) {
    return;  // mmap refuses an empty range
  }
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value, 0);
  if (address == MAP_FAILED) {
    fail_with_errno(path);
  }
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
}

}  // namespace zerolab::data

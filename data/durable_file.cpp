#include "data/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "framework/core/error.h"

namespace zerolab::data {

namespace {

void require_done(bool done, const std::string& path) {
  require(done, "data", "cannot write '{}'; got: {}", path, std::generic_category().message(errno));
}

}  // namespace

DurableFile::DurableFile(std::string path)
    : path_(std::move(path)),
      part_(path_ + ".part"),
      descriptor_(::open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  require_done(descriptor_ >= 0, part_);
}

DurableFile::~DurableFile() {
  ::close(descriptor_);
  if (!committed_) {
    ::unlink(part_.c_str());
  }
}

void DurableFile::write(std::string_view bytes) {
  while (!bytes.empty()) {  // a second round only follows a full disk's short write or a signal
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    require_done(written >= 0 || errno == EINTR, part_);
    bytes.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
  }
}

void DurableFile::rewrite_start(std::string_view bytes) {
  require_done(::lseek(descriptor_, 0, SEEK_SET) == 0, part_);
  write(bytes);
}

void DurableFile::commit() {
  require_done(::fsync(descriptor_) == 0, part_);
  require_done(std::rename(part_.c_str(), path_.c_str()) == 0, path_);
  committed_ = true;
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  const int descriptor =
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  require_done(descriptor >= 0, folder);
  const bool synced = ::fsync(descriptor) == 0;
  ::close(descriptor);
  require_done(synced, folder);
}

}  // namespace zerolab::data

#include "apps/train_gpt/metrics/run_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "framework/core/error.h"
#include "framework/file/file.h"

namespace zerolab::app {

RunFile::RunFile(const std::filesystem::path& run_folder, std::string_view name,
                 std::string_view key, bool appends)
    : path_((run_folder / name).string()), key_(key), begun_(appends) {
  std::error_code error;
  std::filesystem::create_directories(run_folder, error);
  if (error) {
    fail_with("its folder cannot be made", error.value());
  }
  descriptor_ =
      open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (appends ? O_APPEND : 0), 0666);
  if (descriptor_ < 0) {
    fail_with("cannot be opened for writing", errno);
  }
}

RunFile::~RunFile() { close(descriptor_); }

void RunFile::write(std::string_view text) {
  // A device or pipe has no length to cut, which is all right.
  if (!begun_ && ftruncate(descriptor_, 0) != 0 && errno != EINVAL) {
    fail_with("the older file cannot be replaced", errno);
  }
  begun_ = true;
  const int error =
      write_all(std::as_bytes(std::span(text)), [this](std::span<const std::byte> left) {
        return ::write(descriptor_, left.data(), left.size());
      });
  if (error != 0) {
    fail_with("cannot be written", error);
  }
}

void RunFile::fail_with(std::string_view what, int error) const {
  fail(key_, "{}: {}; {}; change run.out_dir, or set log.{} = false", path_, what,
       std::generic_category().message(error), key_);
}

}  // namespace zerolab::app

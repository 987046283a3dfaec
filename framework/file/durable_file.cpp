#include "framework/file/durable_file.h"

#include <system_error>

namespace zerolab {
namespace {

/// What a killed program left.
const std::filesystem::path& removed(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove(path, error);
  return path;
}

}  // namespace

DurableFile::DurableFile(const std::filesystem::path& path)
    : path_(path), part_(path.string() + ".part"), file_(removed(part_)) {}

DurableFile::~DurableFile() {
  if (!committed_) {
    removed(part_);
  }
}

void DurableFile::rewrite_start(std::string_view bytes) {
  file_.write_at(0, std::as_bytes(std::span(bytes)));
}

void DurableFile::commit() {
  file_.finish();
  rename_to(part_, path_);
  committed_ = true;
  sync_folder(std::filesystem::absolute(path_).parent_path());
}

}  // namespace zerolab

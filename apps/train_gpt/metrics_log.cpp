#include "apps/train_gpt/metrics_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "framework/core/error.h"

namespace zerolab::app {
namespace {

[[noreturn]] void fail_with(const std::string& path, const std::string& what, int error) {
  fail("metrics", "{}: {}; {}; change run.out_dir, or set log.metrics = false", path, what,
       std::generic_category().message(error));
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& run_folder)
    : path_((run_folder / "metrics.jsonl").string()) {
  std::error_code error;
  std::filesystem::create_directories(run_folder, error);
  if (error) {
    fail_with(path_, "its folder cannot be made", error.value());
  }
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    fail_with(path_, "cannot be opened for writing", errno);
  }
}

MetricsLog::~MetricsLog() { close(descriptor_); }

void MetricsLog::write(const nlohmann::json& record) {
  // A device or pipe has no length to cut, which is all right.
  if (!begun_ && ftruncate(descriptor_, 0) != 0 && errno != EINVAL) {
    fail_with(path_, "the older log cannot be replaced", errno);
  }
  begun_ = true;
  const std::string line =
      record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {  // A second round only follows a full disk's short write or a signal.
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(written);
    } else if (errno != EINTR) {
      fail_with(path_, "cannot be written", errno);
    }
  }
}

}  // namespace zerolab::app

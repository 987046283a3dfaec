#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "apps/train_gpt/config/listen_address.h"
#include "apps/train_gpt/metrics/log_reader.h"
#include "apps/train_gpt/report/live_server.h"

namespace zerolab::app {

/// The report's page of a run that is going on (docs/live.md). It reads what the run logs, when a
/// browser asks and on that browser's thread: the run does nothing for it.
class LivePage {
 public:
  /// Takes the address; throws `ConfigError` where it cannot. Browsers wait until `start`.
  LivePage(const ListenAddress& address, const std::filesystem::path& log);

  /// To be called when the log holds its first records. The destructor ends the page: it shows what
  /// the log holds then.
  void start();
  std::string url() const { return server_.url(); }

 private:
  std::shared_ptr<const std::string> event(bool ended);

  const std::filesystem::path log_;
  std::mutex mutex_;
  std::optional<LogReader> reader_;
  std::shared_ptr<const std::string> event_;
  std::chrono::steady_clock::time_point made_;
  bool ended_ = false;
  LiveServer server_;  ///< last: its threads use the others
};

/// Drops steps where there are more than `most`, and evaluations, but no peaks (`thinned_out`).
void drop_some(LoggedRun& run, size_t most);

}  // namespace zerolab::app

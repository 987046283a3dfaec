#pragma once

#include <functional>
#include <memory>
#include <string>

#include "apps/train_gpt/config/listen_address.h"

namespace zerolab::app {

/// Serves a page at "/" and server-sent events at "/events" (docs/live.md), GET and HEAD only, on
/// threads of its own: whatever browsers do or leave undone, nobody else waits for them, and at
/// most 16 are served at a time.
class LiveServer {
 public:
  /// The event that is to be seen now, as it goes over the wire: "data: …\n\n". Asked for by
  /// several threads, each about once a second and a last time with `ended`.
  using Source = std::function<std::shared_ptr<const std::string>(bool ended)>;

  /// Takes the address; throws `ConfigError` where it cannot. Browsers that come before `start`
  /// wait.
  LiveServer(const ListenAddress& address, std::string page, Source source);
  /// Sends the last event to those who listen and ends all connections, in about a second at most.
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  void start();
  std::string url() const;

 private:
  class Http;
  std::unique_ptr<Http> http_;
};

}  // namespace zerolab::app

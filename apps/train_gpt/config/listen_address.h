#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace zerolab::app {

/// Where a server waits for connections.
struct ListenAddress {
  std::string host = "127.0.0.1";  ///< a name or a number, IPv6 without brackets
  int port = 0;                    ///< 0: any that is free

  /// "http://127.0.0.1:8080"
  std::string url() const;
  /// Whether a request's header "Host" names this address or the machine itself, at any port: a
  /// tunnel may have another. A browser that a foreign page has misled by its own name (DNS
  /// rebinding) gives that name.
  bool is_named_by(std::string_view host_header) const;
};

/// Of "8080", ":8080", "127.0.0.1:8080", "node7:8080" or "[::1]:8080"; the host is 127.0.0.1 where
/// none is written. Nothing where the text is none of these.
std::optional<ListenAddress> parse_listen_address(std::string_view text);

}  // namespace zerolab::app

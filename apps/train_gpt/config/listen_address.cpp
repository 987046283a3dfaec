#include "apps/train_gpt/config/listen_address.h"

#include <fmt/core.h>
#include <strings.h>

#include <charconv>

namespace zerolab::app {
namespace {

constexpr std::string_view kHostCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
constexpr std::string_view kIpv6Characters = "0123456789abcdefABCDEF:.";

bool consists_of(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

/// An IPv6 address stands in brackets beside a port.
std::string bracketed(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

}  // namespace

std::string ListenAddress::url() const {
  return fmt::format("http://{}:{}", bracketed(host), port);
}

bool ListenAddress::is_named_by(std::string_view host_header) const {
  const size_t colon =
      host_header.find(':', host_header.starts_with('[') ? host_header.find(']') : 0);
  const std::string name(host_header.substr(0, colon));
  for (const std::string& own : {bracketed(host), std::string("localhost"),
                                 std::string("127.0.0.1"), std::string("[::1]")}) {
    if (strcasecmp(name.c_str(), own.c_str()) == 0) {
      return true;
    }
  }
  return false;
}

std::optional<ListenAddress> parse_listen_address(std::string_view text) {
  ListenAddress address;
  const size_t colon = text.rfind(':');
  const std::string_view port = colon == std::string_view::npos ? text : text.substr(colon + 1);
  std::string_view host = colon == std::string_view::npos ? "" : text.substr(0, colon);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size() || address.port < 0 ||
      address.port > 65535) {
    return std::nullopt;
  }
  if (host.empty()) {
    return address;
  }
  const bool brackets = host.starts_with('[') && host.ends_with(']');
  if (brackets) {
    host = host.substr(1, host.size() - 2);
  }
  if (!consists_of(host, brackets ? kIpv6Characters : kHostCharacters)) {
    return std::nullopt;
  }
  address.host = host;
  return address;
}

}  // namespace zerolab::app

#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <string>
#include <string_view>

namespace zerolab::test {

/// A connection to 127.0.0.1 that sends any bytes, and reads when it likes to.
class RawClient {
 public:
  explicit RawClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval patience = {.tv_sec = 20, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~RawClient() { close(socket_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  void send(std::string_view bytes) const {
    ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  /// What came up to `end`, or up to the connection's end where `end` does not come.
  std::string read_to(std::string_view end) const {
    std::string text;
    char block[4096];
    for (size_t seen = 0; end.empty() || text.find(end, seen) == std::string::npos;) {
      seen = text.size() < end.size() ? 0 : text.size() - end.size();
      const ssize_t got = recv(socket_, block, sizeof(block), 0);
      if (got <= 0) {
        break;
      }
      text.append(block, got);
    }
    return text;
  }
  std::string read_all() const { return read_to(""); }

 private:
  int socket_;
  bool connected_ = false;
};

/// What is answered to `request`, whole.
inline std::string answer(int port, std::string_view request) {
  const RawClient client(port);
  client.send(request);
  return client.read_all();
}

/// A request as a browser on this machine makes it.
inline std::string request(std::string_view method, std::string_view path) {
  return std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
}

}  // namespace zerolab::test

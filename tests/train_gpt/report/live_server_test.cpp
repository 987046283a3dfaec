#include "apps/train_gpt/report/live_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <vector>

#include "apps/train_gpt/config/listen_address.h"
#include "tests/train_gpt/config/configs.h"
#include "tests/train_gpt/report/raw_client.h"

namespace zerolab::app {
namespace {

using test::answer;
using test::RawClient;
using test::request;

/// A server with a page of one word and an event that has the size of a test's choice.
class LiveServerTest : public testing::Test {
 protected:
  explicit LiveServerTest(size_t event_size = 0) : filling_(event_size, 'x') {
    server_.emplace(ListenAddress(), "page", [this](bool ended) { return event(ended); });
    server_->start();
  }

  std::shared_ptr<const std::string> event(bool ended) {
    ++events_;
    return std::make_shared<std::string>("data: " + filling_ + (ended ? "last" : "next") + "\n\n");
  }
  int port() const {
    const std::string url = server_->url();
    return std::stoi(url.substr(url.rfind(':') + 1));
  }
  /// The first line, without its "HTTP/1.1 ".
  std::string status(std::string_view text) const {
    const std::string answered = answer(port(), text);
    return answered.empty() ? "" : answered.substr(9, answered.find('\r') - 9);
  }

  const std::string filling_;
  std::atomic<int> events_ = 0;
  std::optional<LiveServer> server_;
};

TEST_F(LiveServerTest, ServesThePageToGetAndHeadAlone) {
  const std::string got = answer(port(), request("GET", "/"));
  EXPECT_TRUE(got.starts_with("HTTP/1.1 200 OK\r\n")) << got;
  EXPECT_TRUE(got.ends_with("\r\n\r\npage")) << got;
  const std::string head = answer(port(), request("HEAD", "/"));
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\n")) << head;
  EXPECT_NE(head.find("Content-Length: 4\r\n"), std::string::npos) << head;
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"}) {
    EXPECT_EQ(status(request(method, "/")), "405 Method Not Allowed") << method;
    EXPECT_EQ(status(request(method, "/events")), "405 Method Not Allowed") << method;
  }
  EXPECT_EQ(events_, 0);
}

TEST_F(LiveServerTest, HasNothingElse) {
  for (const char* path : {"/x", "/index.html", "/events/", "/../../etc/passwd", "/..%2f..%2fetc",
                           "/%00", "//", "/page\\..\\.."}) {
    EXPECT_EQ(status(request("GET", path)), "404 Not Found") << path;
  }
}

TEST_F(LiveServerTest, RefusesForeignNames) {
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"), "403 Forbidden");
  EXPECT_EQ(status("GET /events HTTP/1.1\r\nHost: evil.example:8080\r\n\r\n"), "403 Forbidden");
  EXPECT_EQ(status("GET / HTTP/1.0\r\n\r\n"), "403 Forbidden");
  EXPECT_EQ(events_, 0);
}

TEST_F(LiveServerTest, RefusesLargeAndMalformedRequests) {
  const std::string start = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  std::string many = start;
  for (int i = 0; i < 10'000; ++i) {
    many += "A: b\r\n";
  }
  const std::string too_large = "431 Request Header Fields Too Large";
  EXPECT_EQ(status(start + "A: " + std::string(100'000, 'x') + "\r\n\r\n"), too_large);
  EXPECT_EQ(status(many + "\r\n"), too_large);
  EXPECT_EQ(status(std::string(50'000, '\0')), too_large);
  EXPECT_EQ(status(request("GET", "/" + std::string(9'000, 'x'))), "414 URI Too Long");
  EXPECT_EQ(status(request("BREW", "/")), "400 Bad Request");
  EXPECT_EQ(status("\r\n\r\n"), "400 Bad Request");
  EXPECT_EQ(status(request("GET", "/")), "200 OK");
}

TEST_F(LiveServerTest, HeadersThatItHasNoUseForDoNothing) {
  const std::string start = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  std::string ranges = "Range: bytes=0-0";
  while (ranges.size() < 8'000) {
    ranges += ",0-0";
  }
  const std::vector<std::string> headers = {ranges,
                                            "rAnGe: bytes=0-1",
                                            "Accept-Encoding: gzip, br",
                                            "Expect: 100-continue",
                                            "Content-Length: 1000000",
                                            "Transfer-Encoding: chunked",
                                            "Connection: keep-alive",
                                            "X: y\n" + ranges};
  for (const std::string& header : headers) {
    const std::string got = answer(port(), start + header + "\r\n\r\n");
    EXPECT_TRUE(got.starts_with("HTTP/1.1 200 OK\r\n")) << got;
    EXPECT_TRUE(got.ends_with("\r\n\r\npage")) << got;
  }
}

TEST_F(LiveServerTest, SendsEventsUpToTheLast) {
  const RawClient first(port());
  first.send(request("GET", "/events"));
  const std::string begin = first.read_to("next\n\n");
  EXPECT_NE(begin.find("Content-Type: text/event-stream\r\n"), std::string::npos) << begin;
  EXPECT_NE(begin.find("\r\ndata: next\n\n"), std::string::npos) << begin;
  EXPECT_NE(first.read_to("next\n\n").find("data: next\n\n"), std::string::npos);
  server_.reset();
  const std::string end = first.read_all();
  EXPECT_NE(end.find("data: last\n\n\r\n0\r\n\r\n"), std::string::npos) << end;
}

TEST_F(LiveServerTest, TurnsAwayWhoComesWhenAllPlacesAreTaken) {
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 16; ++i) {
    clients.push_back(std::make_unique<RawClient>(port()));
    clients.back()->send(request("GET", "/events"));
    EXPECT_NE(clients.back()->read_to("next\n\n"), "") << i;
  }
  EXPECT_EQ(status(request("GET", "/")), "503 Service Unavailable");
  EXPECT_EQ(status(request("GET", "/events")), "503 Service Unavailable");
  server_.reset();
  for (const auto& client : clients) {
    EXPECT_NE(client->read_all().find("last"), std::string::npos);
  }
}

TEST_F(LiveServerTest, TwoHundredAtOnceAreAnsweredOrTurnedAway) {
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(std::make_unique<RawClient>(port()));
    clients.back()->send(request("GET", "/"));
  }
  for (const auto& client : clients) {
    const std::string answered = client->read_all();
    EXPECT_TRUE(answered.empty() || answered.starts_with("HTTP/1.1 200") ||
                answered.starts_with("HTTP/1.1 503"))
        << answered;
  }
  EXPECT_EQ(status(request("GET", "/")), "200 OK");
}

TEST_F(LiveServerTest, EndsWithHalfARequest) {
  const RawClient silent(port());
  const RawClient half(port());
  half.send("GET / HTT");
  server_.reset();
  for (const RawClient* client : {&silent, &half}) {
    EXPECT_EQ(client->read_all().find("HTTP/1.1 200"), std::string::npos);
  }
}

TEST_F(LiveServerTest, WhatTheSourceThrowsEndsThatConnectionOnly) {
  LiveServer broken(ListenAddress(), "page",
                    [](bool) -> std::shared_ptr<const std::string> { throw std::bad_alloc(); });
  broken.start();
  const int port = std::stoi(broken.url().substr(broken.url().rfind(':') + 1));
  EXPECT_EQ(answer(port, request("GET", "/events")).find("data:"), std::string::npos);
  EXPECT_TRUE(answer(port, request("GET", "/")).ends_with("page"));
}

class StalledReader : public LiveServerTest {
 protected:
  StalledReader() : LiveServerTest(size_t{32} << 20) {}
};

TEST_F(StalledReader, KeepsNobodyElseWaiting) {
  const RawClient stalled(port());
  stalled.send(request("GET", "/events"));
  ASSERT_NE(stalled.read_to("xxx"), "");  // and reads no more: 32 MiB fit into no buffer
  EXPECT_EQ(status(request("GET", "/")), "200 OK");
  const RawClient reader(port());
  reader.send(request("GET", "/events"));
  EXPECT_NE(reader.read_to("next").find("next"), std::string::npos);
  server_.reset();
  EXPECT_EQ(stalled.read_all().find("last"), std::string::npos);
}

TEST(LiveServer, AnAddressThatIsTakenIsAnError) {
  const auto none = [](bool) { return std::make_shared<const std::string>(); };
  const LiveServer first(ListenAddress(), "page", none);
  const std::string port = first.url().substr(first.url().rfind(':') + 1);
  const std::string taken =
      error_of([&] { LiveServer(*parse_listen_address(port), "page", none); });
  EXPECT_TRUE(taken.starts_with("[dashboard] cannot listen at http://127.0.0.1:" + port +
                                ": another program uses this port"))
      << taken;
  const std::string elsewhere =
      error_of([&] { LiveServer(*parse_listen_address("192.0.2.1:0"), "page", none); });
  EXPECT_TRUE(elsewhere.starts_with(
      "[dashboard] cannot listen at http://192.0.2.1:0: expected an address of this machine"))
      << elsewhere;
}

TEST(LiveServer, ThatNeverStartedEndsToo) {
  std::optional<LiveServer> server(std::in_place, ListenAddress(), "page", [](bool) {
    return std::make_shared<const std::string>("data: next\n\n");
  });
  const RawClient waiting(std::stoi(server->url().substr(server->url().rfind(':') + 1)));
  waiting.send(request("GET", "/"));
  EXPECT_TRUE(waiting.connected());
  server.reset();
  EXPECT_EQ(waiting.read_all(), "");
}

}  // namespace
}  // namespace zerolab::app

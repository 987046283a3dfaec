#include "apps/train_gpt/config/listen_address.h"

#include <gtest/gtest.h>

namespace zerolab::app {
namespace {

/// Its parts as text, or "none".
std::string parsed(std::string_view text) {
  const std::optional<ListenAddress> address = parse_listen_address(text);
  return address.has_value() ? address->host + " " + std::to_string(address->port) : "none";
}

TEST(ListenAddress, IsThisMachinesAloneWhereNoHostIsWritten) {
  EXPECT_EQ(parsed("8080"), "127.0.0.1 8080");
  EXPECT_EQ(parsed(":8080"), "127.0.0.1 8080");
  EXPECT_EQ(parsed("0"), "127.0.0.1 0");
}

TEST(ListenAddress, HasTheHostThatIsWritten) {
  EXPECT_EQ(parsed("127.0.0.1:65535"), "127.0.0.1 65535");
  EXPECT_EQ(parsed("0.0.0.0:80"), "0.0.0.0 80");
  EXPECT_EQ(parsed("node-7.example.org:1"), "node-7.example.org 1");
  EXPECT_EQ(parsed("[::1]:8080"), "::1 8080");
}

TEST(ListenAddress, RefusesTheRest) {
  for (const char* text : {"",
                           ":",
                           "a",
                           "true",
                           "host:",
                           "host",
                           "65536",
                           "-1",
                           "+1",
                           "1.5",
                           " 80",
                           "80 ",
                           "127.0.0.1:80x",
                           "::1",
                           "::1:8080",
                           "[::1]",
                           "[]:80",
                           "[a b]:80",
                           "a b:80",
                           "http://localhost:80",
                           "a/b:80",
                           "[node]:80",
                           "99999999999"}) {
    EXPECT_EQ(parsed(text), "none") << text;
  }
}

TEST(ListenAddress, MakesAnAddressForABrowser) {
  EXPECT_EQ(parse_listen_address("8080")->url(), "http://127.0.0.1:8080");
  EXPECT_EQ(parse_listen_address("[::1]:8080")->url(), "http://[::1]:8080");
}

TEST(ListenAddress, KnowsItsNames) {
  const ListenAddress address = {.host = "Node7", .port = 8080};
  for (const char* host : {"node7", "node7:8080", "NODE7:1", "localhost", "localhost:9000",
                           "127.0.0.1:8080", "[::1]:8080", "[::1]"}) {
    EXPECT_TRUE(address.is_named_by(host)) << host;
  }
  for (const char* host : {"", ":8080", "node", "node77", "evil.example", "evil.example:8080",
                           "localhost.evil.example", "127.0.0.2", "[::1", "::1", "[::2]:8080",
                           "localhost,evil.example", "node7@evil.example"}) {
    EXPECT_FALSE(address.is_named_by(host)) << host;
  }
  EXPECT_TRUE(parse_listen_address("[::1]:8080")->is_named_by("[::1]:8080"));
}

}  // namespace
}  // namespace zerolab::app

// Without the live page: cpp-httplib is not in the build.
#include "apps/train_gpt/report/live_server.h"
#include "framework/core/error.h"

namespace zerolab::app {

class LiveServer::Http {};

LiveServer::LiveServer(const ListenAddress& /*address*/, std::string /*page*/, Source /*source*/) {
  throw ConfigError("report", "this train-gpt has no live page; build it with -DZEROLAB_REPORT=ON");
}

LiveServer::~LiveServer() = default;

void LiveServer::start() {}

std::string LiveServer::url() const { return ""; }

}  // namespace zerolab::app

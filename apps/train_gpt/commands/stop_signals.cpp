#include "apps/train_gpt/commands/stop_signals.h"

#include <csignal>

namespace zerolab::app {
namespace {

std::atomic<bool> stop_requested = false;

extern "C" void request_stop(int signal) {
  stop_requested = true;
  std::signal(signal, SIG_DFL);  // a second one ends at once
}

}  // namespace

const std::atomic<bool>& stop_on_signals() {
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
  return stop_requested;
}

}  // namespace zerolab::app

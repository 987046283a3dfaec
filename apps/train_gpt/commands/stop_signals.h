#pragma once

#include <atomic>

namespace zerolab::app {

/// From now on SIGINT and SIGTERM set the flag that it returns, so that a command can end in order;
/// a second one ends the program at once. The flag lives as long as the program.
const std::atomic<bool>& stop_on_signals();

}  // namespace zerolab::app

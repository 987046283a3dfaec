#pragma once

namespace zerolab::app {

/// Runs the command that the arguments name and returns the program's exit status: 2 for what is
/// wrong with arguments or configuration, 1 for any other error, which `stderr` has. Called once.
int run_command_line(int argc, char** argv);

}  // namespace zerolab::app

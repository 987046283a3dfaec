#include "apps/train_gpt/commands/command_line.h"
#include "framework/memory/allocator.h"

int main(int argc, char** argv) {
  zerolab::keep_large_blocks();
  return zerolab::app::run_command_line(argc, argv);
}

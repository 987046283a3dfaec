#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "framework/core/error.h"

namespace zerolab::fuzz {

/// Calls `read` with an input of the fuzzer. Whatever the input, a reader returns or throws
/// `Error`, and what it allocates at any moment is at most a multiple of the input's size, beside a
/// fixed part; all else ends the program with the input as the finding.
void check_reader(std::string_view input, void (*read)(std::string_view));

/// The name of a file with this content and ending, in memory; the next call replaces it.
std::string file_of(std::string_view input, std::string_view ending);

}  // namespace zerolab::fuzz

/// Defines the fuzzer's entry: FUZZ(input) { …what reads it… }
#define FUZZ(input)                                                                       \
  static void read_input(std::string_view input);                                         \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {               \
    zerolab::fuzz::check_reader({reinterpret_cast<const char*>(data), size}, read_input); \
    return 0;                                                                             \
  }                                                                                       \
  static void read_input(std::string_view input)

#include "tests/fuzz/fuzz.h"

#include <fmt/core.h>
#include <sanitizer/allocator_interface.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace zerolab::fuzz {

namespace {

constexpr int64_t kFixedBytes = int64_t{1} << 20;
constexpr int64_t kMultiple =
    200;  // a JSON document's values take 16 bytes and more for one of text

std::atomic<int64_t> held = 0;   // by the reader, now
std::atomic<int64_t> limit = 0;  // 0: no reader is running

void on_malloc(const volatile void* block, size_t) {
  const auto bytes =
      static_cast<int64_t>(__sanitizer_get_allocated_size(const_cast<const void*>(block)));
  if (limit > 0 && (held += bytes) > limit) {
    std::fprintf(stderr, "a reader holds %ld bytes, more than %ld\n", long{held}, long{limit});
    std::abort();
  }
}

void on_free(const volatile void* block) {
  if (limit > 0 && block != nullptr) {
    held -= static_cast<int64_t>(__sanitizer_get_allocated_size(const_cast<const void*>(block)));
  }
}

}  // namespace

void check_reader(std::string_view input, void (*read)(std::string_view)) {
  static const int hooks = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  if (hooks == 0) {
    std::abort();
  }
  held = 0;
  limit = kFixedBytes + kMultiple * static_cast<int64_t>(input.size());
  try {
    read(input);
  } catch (const Error&) {
    // Said plainly: all that is asked of a reader.
  }
  limit = 0;
}

std::string file_of(std::string_view input, std::string_view ending) {
  static const std::string path = fmt::format("/dev/shm/zerolab-fuzz-{}{}", getpid(), ending);
  std::ofstream(path, std::ios::binary) << input;
  return path;
}

}  // namespace zerolab::fuzz

#include "cuda_sim/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace zerolab::cuda_sim {
namespace {

constexpr size_t kAlignment = 256;  // cudaMalloc's; also the bytes of a red zone
constexpr std::byte kNaN{0xFF};

size_t capacity_of(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Throws if one of bytes [begin, end) of `block` is not NaN's. Reads what is poisoned.
__attribute__((no_sanitize_address)) void expect_nan(const std::byte* block, ptrdiff_t begin,
                                                     ptrdiff_t end, const char* what) {
  for (ptrdiff_t i = begin; i < end; ++i) {
    if (block[i] != kNaN) {
      throw std::runtime_error(fmt::format("device memory was written {}, at byte {}", what, i));
    }
  }
}

void check_live(const std::byte* block, size_t bytes) {
  constexpr auto kZone = static_cast<ptrdiff_t>(kAlignment);
  expect_nan(block, -kZone, 0, "before an allocation");
  expect_nan(block, static_cast<ptrdiff_t>(bytes),
             static_cast<ptrdiff_t>(capacity_of(bytes)) + kZone, "beyond an allocation");
}

void check_free(const std::byte* block, size_t capacity) {
  expect_nan(block, 0, static_cast<ptrdiff_t>(capacity), "after cudaFree");
}

}  // namespace

Memory::~Memory() {
  for (const auto& [block, bytes] : live_) {
    free_[capacity_of(bytes)].push_back(block);
  }
  for (const auto& [capacity, blocks] : free_) {
    for (std::byte* block : blocks) {
      ASAN_UNPOISON_MEMORY_REGION(block - kAlignment, capacity + 2 * kAlignment);
      ::operator delete (block - kAlignment, std::align_val_t{kAlignment});
    }
  }
}

void* Memory::allocate(size_t bytes) {
  if (bytes > limit - std::min(limit, used_)) {
    return nullptr;
  }
  const size_t capacity = capacity_of(bytes);
  std::byte* block = nullptr;
  if (auto& blocks = free_[capacity]; !blocks.empty()) {
    block = blocks.back();
    blocks.pop_back();
    check_free(block, capacity);
  } else {
    const size_t whole = capacity + 2 * kAlignment;
    block = static_cast<std::byte*>(::operator new (whole, std::align_val_t{kAlignment}));
    std::memset(block, static_cast<int>(kNaN), whole);
    ASAN_POISON_MEMORY_REGION(block, whole);
    block += kAlignment;
  }
  live_[block] = bytes;
  used_ += bytes;
  return block;
}

bool Memory::free(void* pointer) {
  const auto at = live_.find(static_cast<std::byte*>(pointer));
  if (at == live_.end()) {
    return false;
  }
  const auto [block, bytes] = *at;
  live_.erase(at);
  used_ -= bytes;
  ASAN_UNPOISON_MEMORY_REGION(block, bytes);
  std::memset(block, static_cast<int>(kNaN), bytes);
  ASAN_POISON_MEMORY_REGION(block, bytes);
  free_[capacity_of(bytes)].push_back(block);
  check_live(block, bytes);
  return true;
}

bool Memory::contains(const void* pointer, size_t bytes) const {
  const auto* first = static_cast<const std::byte*>(pointer);
  auto at = live_.upper_bound(const_cast<std::byte*>(first));
  return at != live_.begin() && (--at, first + bytes <= at->first + at->second);
}

void Memory::check() const {
  for (const auto& [block, bytes] : live_) {
    check_live(block, bytes);
  }
  for (const auto& [capacity, blocks] : free_) {
    for (const std::byte* block : blocks) {
      check_free(block, capacity);
    }
  }
}

void Memory::open() const {
  for (const auto& [block, bytes] : live_) {
    ASAN_UNPOISON_MEMORY_REGION(block, bytes);
  }
}

void Memory::close() const {
  for (const auto& [block, bytes] : live_) {
    ASAN_POISON_MEMORY_REGION(block, bytes);
  }
}

}  // namespace zerolab::cuda_sim

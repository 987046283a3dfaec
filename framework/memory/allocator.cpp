#include "framework/memory/allocator.h"

#include <malloc.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "framework/core/cpu_stream.h"
#include "framework/core/error.h"

namespace zerolab {
namespace {

constexpr int64_t kBlockAlignment = 64;
constexpr int64_t kSmallestOnHugePages = int64_t{1} << 20;
constexpr int kPoisonByte = 0xFF;  // all ones is a NaN of every floating type

/// `aligned_alloc` asks for more than it keeps, so that a freed block is too small for the same
/// request: the heap would grow at every step. Aligning by hand lets a block fit its own hole.
void* take_aligned(int64_t bytes) {
  void* start = std::malloc(bytes + kBlockAlignment);
  if (start == nullptr) {
    return nullptr;
  }
  // malloc aligns to 16 bytes, so at least 16 lie before the block: room for where it starts.
  const auto address = reinterpret_cast<uintptr_t>(start);
  auto* block = static_cast<std::byte*>(start) + kBlockAlignment - address % kBlockAlignment;
  std::memcpy(block - sizeof(start), &start, sizeof(start));
  return block;
}

void give_back(void* block) {
  void* start = nullptr;
  std::memcpy(&start, static_cast<std::byte*>(block) - sizeof(start), sizeof(start));
  std::free(start);
}

/// Asks for huge pages under a large block: with small ones the address translation, not the
/// memory, limits every pass over it. Rounds outwards, since only whole huge pages count and the
/// neighbours are blocks like this one. A system that refuses costs speed and nothing else.
void prefer_huge_pages(void* block, int64_t bytes) {
  constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
  if (bytes < kSmallestOnHugePages) {
    return;
  }
  const auto address = reinterpret_cast<uintptr_t>(block);
  const uintptr_t begin = address / kHugePage * kHugePage;
  const uintptr_t end = (address + bytes + kHugePage - 1) / kHugePage * kHugePage;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace

void* CpuAllocator::allocate(int64_t bytes, Category category, const Shape& shape, DType dtype) {
  ledger_.add(category, bytes, shape, dtype);
  if (bytes == 0) {
    return nullptr;
  }
  void* block = take_aligned(bytes);
  if (block == nullptr) {
    ledger_.remove(category, bytes);
    fail("memory", "the system has no {} bytes of {} for a tensor {} of {}\n{}", bytes,
         name_of(category), shape.to_string(), name_of(dtype), ledger_.to_string());
  }
  prefer_huge_pages(block, bytes);
  if (poison_) {
    std::memset(block, kPoisonByte, bytes);
  }
  return block;
}

void CpuAllocator::free(void* block, int64_t bytes, Category category, Stream& stream) {
  ledger_.remove(category, bytes);
  if (block == nullptr) {
    return;
  }
  static_cast<CpuStream&>(stream).launch([block, bytes, poison = poison_] {
    if (poison) {
      std::memset(block, kPoisonByte, bytes);
    }
    give_back(block);
  });
}

void* MetaAllocator::allocate(int64_t bytes, Category category, const Shape& shape, DType dtype) {
  ledger_.add(category, bytes, shape, dtype);
  return nullptr;
}

void MetaAllocator::free(void*, int64_t bytes, Category category, Stream&) {
  ledger_.remove(category, bytes);
}

void keep_large_blocks() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_ARENA_MAX, 1);  // other arenas are limited to 64 MiB a heap and would fall back to mmap
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
}

}  // namespace zerolab

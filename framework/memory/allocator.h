#pragma once

#include <cstdint>
#include <string_view>

#include "framework/memory/ledger.h"

namespace zerolab {

class Stream;

/// Memory of one device for one rank, under its ledger.
class Allocator {
 public:
  virtual ~Allocator() = default;
  /// At least `bytes` bytes, 64-byte aligned. Throws `Error` when the ledger's limit or the device
  /// is exhausted.
  virtual void* allocate(int64_t bytes, Category category, const Shape& shape, DType dtype) = 0;
  /// Gives back at once in the ledger, and in the order of `stream` on the device: work already
  /// launched there may still use the block; work of another stream must have been waited for.
  virtual void free(void* block, int64_t bytes, Category category, Stream& stream) = 0;
};

/// The host's memory. With `poison`, fresh and freed blocks are filled with NaN.
class CpuAllocator final : public Allocator {
 public:
  CpuAllocator(MemoryLedger& ledger, bool poison) : ledger_(ledger), poison_(poison) {}
  void* allocate(int64_t bytes, Category category, const Shape& shape, DType dtype) override;
  void free(void* block, int64_t bytes, Category category, Stream& stream) override;

 private:
  MemoryLedger& ledger_;
  const bool poison_;
};

/// Counts and gives no memory: for dry runs.
class MetaAllocator final : public Allocator {
 public:
  explicit MetaAllocator(MemoryLedger& ledger) : ledger_(ledger) {}
  void* allocate(int64_t bytes, Category category, const Shape& shape, DType dtype) override;
  void free(void* block, int64_t bytes, Category category, Stream& stream) override;

 private:
  MemoryLedger& ledger_;
};

/// Tells the C library to keep large blocks rather than give them back to the kernel: a training
/// step frees and takes the same sizes again, and every return would cost its page faults. To be
/// called once, before threads.
void keep_large_blocks();

}  // namespace zerolab

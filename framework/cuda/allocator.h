#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "framework/memory/allocator.h"

namespace zerolab::cuda {

/// The current device's memory, for one rank's host thread. Freed blocks are kept and given again
/// at once: work that uses them must be of the stream that they were freed on, where it runs after
/// what used them before. So the device is asked for memory in the first step only, and no free
/// waits.
///
/// With `poison`, fresh and freed blocks are filled with NaN, and each is an allocation of the
/// device's own and of exactly its size, so that memory checkers see where it ends.
class CudaAllocator final : public Allocator {
 public:
  CudaAllocator(MemoryLedger& ledger, bool poison) : ledger_(ledger), poison_(poison) {}
  /// Work that uses the blocks is over.
  ~CudaAllocator() override;
  CudaAllocator(const CudaAllocator&) = delete;
  CudaAllocator& operator=(const CudaAllocator&) = delete;

  void* allocate(int64_t bytes, Category category, const Shape& shape, DType dtype) override;
  void free(void* block, int64_t bytes, Category category, Stream& stream) override;
  /// Bytes taken from the device: in use, or free to be given again.
  int64_t reserved() const { return reserved_; }

 private:
  /// Blocks lie side by side in segments, which are what the device gave.
  struct Block {
    int64_t bytes = 0;
    bool starts_segment = false;
    bool is_free = false;
  };
  using Blocks = std::map<std::byte*, Block>;

  /// What a request for `bytes` takes.
  int64_t size_of_block(int64_t bytes) const;
  /// The smallest free block that will do, or the end.
  Blocks::iterator find_free(int64_t size);
  /// A new segment, as one free block; the end where the device has no memory.
  Blocks::iterator take_segment(int64_t size);
  /// Gives wholly free segments back to the device.
  void empty_cache();
  /// Makes a block free, and one with its free neighbours.
  void release(Blocks::iterator block);

  MemoryLedger& ledger_;
  const bool poison_;
  Blocks blocks_;
  std::set<std::pair<int64_t, std::byte*>> free_;  ///< by size
  int64_t reserved_ = 0;
  Stream* stream_ = nullptr;  ///< that blocks are freed on
};

}  // namespace zerolab::cuda

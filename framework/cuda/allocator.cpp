#include "framework/cuda/allocator.h"

#include <algorithm>
#include <iterator>

#include "framework/core/error.h"
#include "framework/cuda/check.h"
#include "framework/cuda/cuda_stream.h"

namespace zerolab::cuda {
namespace {

constexpr int64_t kAlignment = 512;
constexpr int64_t kSegment = int64_t{2} << 20;  ///< small blocks share one
constexpr int kPoisonByte = 0xFF;               // all ones is a NaN of every floating type

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

CudaAllocator::~CudaAllocator() {
  for (const auto& [start, block] : blocks_) {
    if (block.starts_segment) {
      cudaFree(start);
    }
  }
}

int64_t CudaAllocator::size_of_block(int64_t bytes) const {
  return poison_ ? bytes : round_up(bytes, kAlignment);
}

CudaAllocator::Blocks::iterator CudaAllocator::find_free(int64_t size) {
  const auto found = free_.lower_bound({size, nullptr});
  const bool fits = found != free_.end() && (!poison_ || found->first == size);
  return fits ? blocks_.find(found->second) : blocks_.end();
}

CudaAllocator::Blocks::iterator CudaAllocator::take_segment(int64_t size) {
  const int64_t bytes = poison_ ? size : round_up(size, kSegment);
  void* start = nullptr;
  const cudaError_t status = cudaMalloc(&start, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // the caller deals with it
    return blocks_.end();
  }
  check(status, "allocating memory");
  if (poison_) {
    check(cudaMemsetAsync(start, kPoisonByte, bytes, cudaStreamPerThread), "poisoning memory");
    check(cudaStreamSynchronize(cudaStreamPerThread), "poisoning memory");
  }
  reserved_ += bytes;
  const auto block =
      blocks_.emplace(static_cast<std::byte*>(start), Block{bytes, true, true}).first;
  free_.emplace(bytes, block->first);
  return block;
}

void CudaAllocator::empty_cache() {
  if (stream_ != nullptr) {
    stream_->synchronize();  // its work may still use what has been freed
  }
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const auto next = std::next(block);
    const auto& [start, of] = *block;
    if (of.is_free && of.starts_segment && (next == blocks_.end() || next->second.starts_segment)) {
      check(cudaFree(start), "freeing memory");
      reserved_ -= of.bytes;
      free_.erase({of.bytes, start});
      blocks_.erase(block);
    }
    block = next;
  }
}

void* CudaAllocator::allocate(int64_t bytes, Category category, const Shape& shape, DType dtype) {
  ledger_.add(category, bytes, shape, dtype);
  if (bytes == 0) {
    return nullptr;
  }
  const int64_t size = size_of_block(bytes);
  auto block = find_free(size);
  if (block == blocks_.end()) {
    block = take_segment(size);
  }
  if (block == blocks_.end()) {
    empty_cache();
    block = take_segment(size);
  }
  if (block == blocks_.end()) {
    ledger_.remove(category, bytes);
    fail("memory", "the device has no {} bytes of {} for a tensor {} of {}; {} bytes are taken\n{}",
         bytes, name_of(category), shape.to_string(), name_of(dtype), reserved_,
         ledger_.to_string());
  }
  auto& [start, taken] = *block;
  free_.erase({taken.bytes, start});
  taken.is_free = false;
  if (taken.bytes > size) {
    const auto rest = blocks_.emplace(start + size, Block{taken.bytes - size, false, true}).first;
    free_.emplace(rest->second.bytes, rest->first);
    taken.bytes = size;
  }
  return start;
}

void CudaAllocator::free(void* block, int64_t bytes, Category category, Stream& stream) {
  ledger_.remove(category, bytes);
  if (block == nullptr) {
    return;
  }
  stream_ = &stream;
  if (poison_) {
    check(cudaMemsetAsync(block, kPoisonByte, bytes, handle_of(stream)), "poisoning memory");
  }
  release(blocks_.find(static_cast<std::byte*>(block)));
}

void CudaAllocator::release(Blocks::iterator block) {
  const auto join = [this](Blocks::iterator first, Blocks::iterator second) {
    if (second == blocks_.end() || second->second.starts_segment || !first->second.is_free ||
        !second->second.is_free) {
      return first;
    }
    free_.erase({first->second.bytes, first->first});
    free_.erase({second->second.bytes, second->first});
    first->second.bytes += second->second.bytes;
    blocks_.erase(second);
    free_.emplace(first->second.bytes, first->first);
    return first;
  };
  block->second.is_free = true;
  free_.emplace(block->second.bytes, block->first);
  join(block, std::next(block));
  if (block != blocks_.begin()) {
    join(std::prev(block), block);
  }
}

}  // namespace zerolab::cuda

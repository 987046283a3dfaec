#include "framework/cuda/allocator.h"

#include <deque>
#include <random>

#include "framework/core/error.h"
#include "framework/cuda/cuda_stream.h"
#include "tests/cuda/both.h"

namespace zerolab {
namespace {

class CudaAllocation : public testing::Test {
 protected:
  CudaAllocation() { set_device_seed(0); }

  std::byte* take(cuda::CudaAllocator& allocator, int64_t bytes) {
    return static_cast<std::byte*>(
        allocator.allocate(bytes, Category::kActivations, Shape{bytes / 4}, DType::kFloat32));
  }
  void give(cuda::CudaAllocator& allocator, std::byte* block, int64_t bytes) {
    allocator.free(block, bytes, Category::kActivations, stream);
  }
  std::vector<uint32_t> read(const std::byte* block, int64_t count) {
    std::vector<uint32_t> bits(count);
    stream.synchronize();
    EXPECT_EQ(cudaMemcpy(bits.data(), block, count * 4, cudaMemcpyDeviceToHost), cudaSuccess);
    return bits;
  }

  MemoryLedger ledger;
  cuda::CudaStream stream;
};

TEST_F(CudaAllocation, GivesAFreedBlockAgainAtOnce) {
  cuda::CudaAllocator allocator(ledger, false);
  std::byte* first = take(allocator, 1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0U);
  std::byte* second = take(allocator, 4000);
  give(allocator, first, 1000);
  EXPECT_EQ(take(allocator, 900), first);
  EXPECT_EQ(ledger.snapshot().total, 4900);
  EXPECT_NE(second, first);
}

TEST_F(CudaAllocation, JoinsNeighboursAndTakesTheSmallestThatFits) {
  cuda::CudaAllocator allocator(ledger, false);
  const int64_t bytes = 1 << 16;
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 32; ++i) {  // one segment of 2 MiB
    blocks.push_back(take(allocator, bytes));
  }
  EXPECT_EQ(allocator.reserved(), 32 * bytes);
  for (const int i : {3, 5, 4, 9}) {
    give(allocator, blocks[i], bytes);
  }
  EXPECT_EQ(take(allocator, bytes), blocks[9]);
  EXPECT_EQ(take(allocator, 3 * bytes), blocks[3]);
  EXPECT_EQ(allocator.reserved(), 32 * bytes);
}

TEST_F(CudaAllocation, LaterStepsTakeNothingFromTheDevice) {
  cuda::CudaAllocator allocator(ledger, false);
  const auto step = [&] {
    std::mt19937 generator(7);
    std::deque<std::pair<std::byte*, int64_t>> held;
    for (int layer = 0; layer < 12; ++layer) {  // saved, with workspace that comes and goes
      const int64_t bytes = 1000 + generator() % 3'000'000;
      held.emplace_back(take(allocator, bytes), bytes);
      std::byte* workspace = take(allocator, 500'000);
      give(allocator, workspace, 500'000);
    }
    while (!held.empty()) {
      std::byte* gradient = take(allocator, 700'000);
      give(allocator, held.back().first, held.back().second);
      give(allocator, gradient, 700'000);
      held.pop_back();
    }
  };
  step();
  const int64_t reserved = allocator.reserved();
  for (int i = 0; i < 5; ++i) {
    step();
  }
  EXPECT_EQ(allocator.reserved(), reserved);
  EXPECT_EQ(ledger.snapshot().total, 0);
  EXPECT_LT(reserved, ledger.snapshot().total_peak * 3 / 2 + (4 << 20));
}

TEST_F(CudaAllocation, PoisonsFreshAndFreedBlocks) {
  cuda::CudaAllocator allocator(ledger, true);
  std::byte* block = take(allocator, 40);
  EXPECT_EQ(read(block, 10), std::vector<uint32_t>(10, 0xFFFFFFFFU));
  EXPECT_EQ(cudaMemsetAsync(block, 0, 40, stream.handle()), cudaSuccess);
  EXPECT_EQ(read(block, 10), std::vector<uint32_t>(10, 0U));
  give(allocator, block, 40);
  EXPECT_EQ(take(allocator, 40), block);
  EXPECT_EQ(read(block, 10), std::vector<uint32_t>(10, 0xFFFFFFFFU));
}

TEST_F(CudaAllocation, WithoutMemoryTheCacheIsEmptiedAndTheErrorTellsWhatWasWanted) {
  cuda::CudaAllocator allocator(ledger, false);
  std::byte* kept = take(allocator, 3 << 20);
  give(allocator, take(allocator, 5 << 20), 5 << 20);
  EXPECT_EQ(allocator.reserved(), 10 << 20);
  try {
    take(allocator, int64_t{1} << 50);
    FAIL() << "a pebibyte was given";
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* part : {"[memory]", "1125899906842624 bytes of activations",
                             "[281474976710656] of fp32", "4194304 bytes are taken", "total"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in: " << text;
    }
  }
  EXPECT_EQ(allocator.reserved(), 4 << 20);
  EXPECT_EQ(ledger.snapshot().total, 3 << 20);
  give(allocator, kept, 3 << 20);
}

TEST_F(CudaAllocation, TheLedgersLimitIsEnforced) {
  MemoryLedger limited(1000);
  cuda::CudaAllocator allocator(limited, false);
  take(allocator, 800);
  EXPECT_THROW(take(allocator, 204), Error);
  EXPECT_EQ(limited.snapshot().total, 800);
}

}  // namespace
}  // namespace zerolab

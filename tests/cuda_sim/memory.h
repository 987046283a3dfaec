#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace zerolab::cuda_sim {

/// Device memory: NaN when fresh, between red zones, poisoned for the host under the address
/// sanitizer except while the device works. What is freed becomes NaN again and is the first to be
/// reused. What finds damage throws std::runtime_error.
class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Null when `limit` bytes would be exceeded; finds writes after a free in what it reuses.
  void* allocate(size_t bytes);
  /// False if `pointer` is not a live allocation; finds writes into its red zones.
  bool free(void* pointer);
  /// The range lies in one live allocation.
  bool contains(const void* pointer, size_t bytes) const;
  /// Finds writes into red zones and after a free, anywhere.
  void check() const;

  /// Around the device's work: lets the sanitizer accept accesses, or not.
  void open() const;
  void close() const;

  size_t used() const { return used_; }
  size_t num_allocations() const { return live_.size(); }

  size_t limit = size_t{16} << 30;

 private:
  std::map<std::byte*, size_t> live_;               ///< bytes of each
  std::map<size_t, std::vector<std::byte*>> free_;  ///< by capacity, the latest last
  size_t used_ = 0;
};

}  // namespace zerolab::cuda_sim

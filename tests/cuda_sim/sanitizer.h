#pragma once

#include <cstddef>

/// What the address sanitizer is told; nothing in other builds.

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

namespace zerolab::cuda_sim {

inline void poison(void* memory, size_t bytes) { __asan_poison_memory_region(memory, bytes); }
inline void unpoison(void* memory, size_t bytes) { __asan_unpoison_memory_region(memory, bytes); }
/// Before a switch to another stack; `own` keeps what belongs to this one (null: it ends here).
inline void start_switch(void** own, const void* bottom, size_t bytes) {
  __sanitizer_start_switch_fiber(own, bottom, bytes);
}
/// After it, on the other stack; says which one was left.
inline void finish_switch(void* own, const void** bottom, size_t* bytes) {
  __sanitizer_finish_switch_fiber(own, bottom, bytes);
}

}  // namespace zerolab::cuda_sim
#else
namespace zerolab::cuda_sim {

inline void poison(void*, size_t) {}
inline void unpoison(void*, size_t) {}
inline void start_switch(void**, const void*, size_t) {}
inline void finish_switch(void*, const void**, size_t*) {}

}  // namespace zerolab::cuda_sim
#endif

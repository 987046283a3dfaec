#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <functional>

namespace zerolab::cuda_sim {

/// A stack of its own on which `work` runs, once for each `resume` that finds it done. Used by one
/// host thread.
class Worker {
 public:
  /// Thrown by `yield` in a worker that is being destroyed; `work` lets it through.
  struct Stopped {};

  explicit Worker(std::function<void()> work);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Goes on until the work is done or yields.
  void resume();
  /// In the work: back to who resumed it.
  void yield();

 private:
  boost::context::protected_fixedsize_stack allocator_;
  boost::context::stack_context stack_;
  boost::context::fiber caller_;
  boost::context::fiber fiber_;
  const void* caller_bottom_ = nullptr;  ///< for the sanitizer: the caller's stack
  size_t caller_bytes_ = 0;
  bool stopping_ = false;
};

}  // namespace zerolab::cuda_sim

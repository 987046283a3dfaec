#include "cuda_sim/worker.h"

#include <utility>

#include "cuda_sim/sanitizer.h"

namespace zerolab::cuda_sim {
namespace {

constexpr size_t kStackBytes = 256 * 1024;

}  // namespace

Worker::Worker(std::function<void()> work)
    : allocator_(kStackBytes),
      stack_(allocator_.allocate()),
      fiber_(std::allocator_arg, boost::context::preallocated(stack_.sp, stack_.size, stack_),
             allocator_, [this, work = std::move(work)](boost::context::fiber&& caller) {
               finish_switch(nullptr, &caller_bottom_, &caller_bytes_);
               caller_ = std::move(caller);
               try {
                 for (;; yield()) {
                   work();
                 }
               } catch (const Stopped&) {
               }
               start_switch(nullptr, caller_bottom_, caller_bytes_);
               return std::move(caller_);
             }) {
  // Where this stack lies, another may have ended, with marks of its frames left.
  unpoison(static_cast<char*>(stack_.sp) - stack_.size, stack_.size);
}

Worker::~Worker() {
  stopping_ = true;
  resume();
}

void Worker::resume() {
  void* own = nullptr;
  start_switch(&own, static_cast<const char*>(stack_.sp) - stack_.size, stack_.size);
  fiber_ = std::move(fiber_).resume();
  finish_switch(own, nullptr, nullptr);
}

void Worker::yield() {
  void* own = nullptr;
  start_switch(&own, caller_bottom_, caller_bytes_);
  caller_ = std::move(caller_).resume();
  finish_switch(own, &caller_bottom_, &caller_bytes_);
  if (stopping_) {
    throw Stopped{};
  }
}

}  // namespace zerolab::cuda_sim

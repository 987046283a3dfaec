#include "framework/core/modelled_stream.h"

namespace zerolab {
namespace {

/// The device reaches it when it reaches it: only its time is known.
class ModelledEvent final : public EventState {
 public:
  explicit ModelledEvent(Clock::time_point time) : time_(time) {}
  bool is_complete() const override { return false; }
  void synchronize() override {}
  Clock::time_point time() const { return time_; }

 private:
  const Clock::time_point time_;
};

class ModelledStreams final : public RankStreams {
 public:
  Stream& compute() override { return compute_; }
  Stream& communication() override { return communication_; }

 private:
  ModelledStream compute_;
  ModelledStream communication_;
};

}  // namespace

Event ModelledStream::record() { return Event(std::make_shared<ModelledEvent>(now_)); }

void ModelledStream::wait(const Event& event) {
  if (event.state() != nullptr) {
    wait_until(static_cast<const ModelledEvent&>(*event.state()).time());
  }
}

void ModelledStream::advance(Clock::duration duration) {
  // Years of a hopeless link, again and again, must not overflow.
  now_ += std::min(duration, Clock::time_point::max() - now_);
}

std::unique_ptr<RankStreams> make_modelled_streams() { return std::make_unique<ModelledStreams>(); }

}  // namespace zerolab

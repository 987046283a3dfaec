#pragma once

#include <string_view>
#include <vector>

#include "framework/comm/checked_communicator.h"
#include "zero/layout.h"

namespace zerolab::zero {

/// One rank alone, which remembers its calls and moves nothing.
class RecordingCommunicator final : public CheckedCommunicator {
 public:
  RecordingCommunicator() : CheckedCommunicator(0, 1) {}
  void barrier() override {}
  void abort(std::string_view /*reason*/) override {}
  /// Buckets in the order of their collectives.
  std::vector<int> buckets;

 private:
  void run(Stream& /*stream*/, const Collective& call) override {
    buckets.push_back(call.tag.bucket);
  }
};

/// Parameters "p0", "p1", … in a bucket each: the last one's first. One rank; alignment 4.
inline Layout layout_of(const std::vector<int64_t>& sizes, int own_bucket = -1) {
  std::vector<LayoutParameter> parameters;
  for (size_t i = 0; i < sizes.size(); ++i) {
    parameters.push_back({.name = "p" + std::to_string(i),
                          .numel = sizes[i],
                          .own_bucket = static_cast<int>(i) == own_bucket});
  }
  return Layout(std::move(parameters), {.world_size = 1, .bucket_size = 1, .alignment = 4});
}

}  // namespace zerolab::zero

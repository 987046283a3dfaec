#include "framework/memory/ledger.h"

#include "framework/core/error.h"

namespace zerolab {
namespace {

std::string table_of(const MemoryLedger::Snapshot& bytes) {
  std::string text = fmt::format("{:<18}{:>16}{:>16}\n", "category", "bytes now", "bytes at peak");
  for (int i = 0; i < kNumCategories; ++i) {
    if (bytes.peak[i] > 0) {
      text += fmt::format("{:<18}{:>16}{:>16}\n", name_of(static_cast<Category>(i)),
                          bytes.current[i], bytes.at_total_peak[i]);
    }
  }
  return text + fmt::format("{:<18}{:>16}{:>16}\n", "total", bytes.total, bytes.total_peak);
}

}  // namespace

std::string_view name_of(Category category) {
  constexpr std::string_view kNames[kNumCategories] = {
      "parameters",      "gradients",   "gradient_buckets", "master_weights",
      "optimizer_state", "activations", "logits",           "workspace",
      "communication",   "control",     "checkpoint"};
  return kNames[static_cast<int>(category)];
}

void MemoryLedger::add(Category category, int64_t bytes, const Shape& shape, DType dtype) {
  const std::lock_guard lock(mutex_);
  if (limit_ > 0 && bytes_.total + bytes > limit_) {
    fail("memory",
         "out of memory: {} bytes of {} for a tensor {} of {}; got {} bytes in use, expected at "
         "most {} (launch.memory_limit); "
         "use a smaller model or micro-batch, more ranks, or a higher zero.stage\n{}",
         bytes, name_of(category), shape.to_string(), name_of(dtype), bytes_.total, limit_,
         table_of(bytes_));
  }
  const int index = static_cast<int>(category);
  bytes_.current[index] += bytes;
  bytes_.total += bytes;
  bytes_.peak[index] = std::max(bytes_.peak[index], bytes_.current[index]);
  if (bytes_.total > bytes_.total_peak) {
    bytes_.total_peak = bytes_.total;
    bytes_.at_total_peak = bytes_.current;
  }
  changed();
}

void MemoryLedger::remove(Category category, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_.current[static_cast<int>(category)] -= bytes;
  bytes_.total -= bytes;
  changed();
}

void MemoryLedger::changed() {
  if (follows_) {
    timeline_.push_back({{}, -1, bytes_.current, Clock::now()});
  }
}

MemoryLedger::Snapshot MemoryLedger::snapshot() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void MemoryLedger::reset_peaks() {
  const std::lock_guard lock(mutex_);
  bytes_.peak = bytes_.current;
  bytes_.at_total_peak = bytes_.current;
  bytes_.total_peak = bytes_.total;
}

void MemoryLedger::sample(std::string_view phase, int bucket) {
  const std::lock_guard lock(mutex_);
  if (timeline_.size() < kMaxSamples || follows_) {
    timeline_.push_back({phase, bucket, bytes_.current, Clock::now()});
  }
}

void MemoryLedger::follow(bool changes) {
  const std::lock_guard lock(mutex_);
  follows_ = changes;
}

void MemoryLedger::clear_timeline() {
  const std::lock_guard lock(mutex_);
  timeline_.clear();
}

std::vector<MemoryLedger::Sample> MemoryLedger::timeline() const {
  const std::lock_guard lock(mutex_);
  return timeline_;
}

std::string MemoryLedger::to_string() const { return table_of(snapshot()); }

}  // namespace zerolab

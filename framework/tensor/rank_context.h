#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "framework/core/recorder.h"
#include "framework/core/stream.h"
#include "framework/memory/allocator.h"
#include "framework/memory/ledger.h"

namespace zerolab {

class Backend;

struct RankOptions {
  int rank = 0;
  int world_size = 1;
  int threads = 1;           ///< OpenMP threads of this rank's kernels
  int64_t memory_limit = 0;  ///< bytes; 0: none
  bool poison = false;       ///< fill fresh and freed memory with NaN
  StreamMode streams = StreamMode::kImmediate;
  uint64_t lazy_seed = 0;
};

/// A module whose forward runs while its rank is traced, and the one around it.
struct RunningModule {
  std::string name;
  std::shared_ptr<const RunningModule> outer;
};

/// All that one rank has for itself: device, memory, streams, recorder. There is no other mutable
/// global state. It is driven by one host thread and outlives every tensor made in it.
class RankContext {
 public:
  /// `backend` is stateless between ranks' calls and may be shared; it outlives the context.
  RankContext(const RankOptions& options, Backend& backend);
  RankContext(const RankContext&) = delete;
  RankContext& operator=(const RankContext&) = delete;

  int rank() const { return options_.rank; }
  int world_size() const { return options_.world_size; }
  const RankOptions& options() const { return options_; }
  Backend& backend() const { return backend_; }
  MemoryLedger& ledger() { return ledger_; }
  Allocator& allocator() const { return *allocator_; }
  Recorder& recorder() { return recorder_; }
  Stream& compute() const { return *compute_; }
  Stream& communication() { return streams_->communication(); }

  /// Makes the compute stream wait for communication; if it stands still for that, the time is
  /// recorded as exposed.
  void wait_for_communication(const Event& event, std::string_view name, int bucket);

  /// Records the time of what is put on the compute stream during its lifetime.
  ScopedSpan span(SpanKind kind, std::string_view name, int bucket = -1) {
    return ScopedSpan(recorder_, *compute_,
                      {.kind = kind, .name = std::string(name), .bucket = bucket});
  }

  /// A traced rank also records its modules, the moment that released each reduction, and each
  /// change of its memory.
  void set_traced(bool traced);
  bool traced() const { return traced_; }
  /// Records the point where what has been put on the compute stream is done, if traced.
  void mark(SpanKind kind, std::string_view name, int bucket);
  /// The innermost module that runs; null where none does, or the rank is not traced.
  const std::shared_ptr<const RunningModule>& module() const { return module_; }

  /// The category that new tensors get, and whether ops record gradients: set by the scopes below.
  Category category() const { return category_; }
  bool grad_enabled() const { return grad_enabled_; }

 private:
  friend class CategoryScope;
  friend class NoGradScope;
  friend class ModuleScope;

  const RankOptions options_;
  Backend& backend_;
  MemoryLedger ledger_;
  Recorder recorder_;
  std::unique_ptr<Allocator> allocator_;
  std::unique_ptr<RankStreams> streams_;
  Stream* compute_ = nullptr;
  Category category_ = Category::kActivations;
  bool grad_enabled_ = true;
  bool traced_ = false;
  std::shared_ptr<const RunningModule> module_;
};

/// Tensors made during its lifetime carry `category`.
class CategoryScope {
 public:
  CategoryScope(RankContext& context, Category category)
      : context_(context), previous_(context.category_) {
    context_.category_ = category;
  }
  ~CategoryScope() { context_.category_ = previous_; }
  CategoryScope(const CategoryScope&) = delete;
  CategoryScope& operator=(const CategoryScope&) = delete;

 private:
  RankContext& context_;
  const Category previous_;
};

/// Ops record no gradients and save nothing during its lifetime: evaluation.
class NoGradScope {
 public:
  explicit NoGradScope(RankContext& context) : context_(context), previous_(context.grad_enabled_) {
    context_.grad_enabled_ = false;
  }
  ~NoGradScope() { context_.grad_enabled_ = previous_; }
  NoGradScope(const NoGradScope&) = delete;
  NoGradScope& operator=(const NoGradScope&) = delete;

 private:
  RankContext& context_;
  const bool previous_;
};

/// The forward of a module. While the rank is traced this is a span, and so will be the backward of
/// the ops made in it; else it costs nothing.
class ModuleScope {
 public:
  /// Of `part` of the module, or of all of it.
  ModuleScope(RankContext& context, std::string_view module, std::string_view part = {});
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  RankContext& context_;
  std::optional<ScopedSpan> span_;  ///< empty where the rank is not traced
};

}  // namespace zerolab

#include "checkpoint/writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/file/file.h"

namespace zerolab::checkpoint {

Writer::Writer(Folder folder, int ranks, int64_t keep)
    : folder_(std::move(folder)), ranks_(ranks), keep_(keep), writing_(ranks) {
  folder_.clean();
}

Writer::~Writer() {
  for (int rank = 0; rank < ranks_; ++rank) {
    wait(rank);
  }
  for (const auto& [step, pending] : pending_) {
    folder_.abandon(step);
  }
}

void RankWriter::save(const Manifest& manifest) {
  const auto begin = std::chrono::steady_clock::now();
  wait();
  snapshot_.take();
  const std::chrono::duration<double, std::milli> blocked =
      std::chrono::steady_clock::now() - begin;
  writer_.write(rank_, snapshot_, manifest, blocked.count());
}

void Writer::write(int rank, const Snapshot& snapshot, const Manifest& manifest,
                   double blocked_ms) {
  const int64_t step = manifest.state.step;
  {
    const std::lock_guard lock(mutex_);
    const auto [pending, first] = pending_.try_emplace(step);
    if (first) {
      pending->second.manifest = manifest;
      pending->second.manifest.files.resize(ranks_);
      try {
        folder_.begin(step);
      } catch (const std::exception& error) {
        pending->second.error = error.what();
      }
    }
    pending->second.blocked_ms = std::max(pending->second.blocked_ms, blocked_ms);
  }
  writing_[rank] = std::async(std::launch::async,
                              [this, rank, &snapshot, step] { write_file(rank, snapshot, step); });
}

void Writer::write_file(int rank, const Snapshot& snapshot, int64_t step) {
  PartInfo info;
  std::string error;
  try {
    info = write_part(folder_.unfinished(step) / fmt::format("part-{:03}.safetensors", rank),
                      snapshot.pieces(), snapshot.data());
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  Pending whole;
  {
    const std::lock_guard lock(mutex_);
    Pending& pending = pending_.at(step);
    pending.manifest.files[rank] = info;
    if (pending.error.empty()) {
      pending.error = error;
    }
    if (++pending.arrived < ranks_) {
      return;
    }
    whole = std::move(pending);
    pending_.erase(step);
  }
  commit(step, whole);  // one at a time: this rank's next file comes after it
}

void Writer::commit(int64_t step, const Pending& pending) {
  Saved saved = {
      .step = step, .path = {}, .error = pending.error, .blocked_ms = pending.blocked_ms};
  if (saved.error.empty()) {
    try {
      NewFile file(folder_.unfinished(step) / kManifestName);
      file.write(to_text(pending.manifest));
      file.finish();
      folder_.commit(step);
      saved.path = folder_.of_step(step).string();
      folder_.prune(keep_);
    } catch (const std::exception& error) {
      saved.error = error.what();
    }
  }
  if (!saved.error.empty()) {
    folder_.abandon(step);
  }
  for (const PartInfo& file : pending.manifest.files) {
    saved.bytes += file.bytes;
  }
  saved.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - pending.begin).count();
  const std::lock_guard lock(mutex_);
  saved_.push_back(std::move(saved));
}

void Writer::wait(int rank) {
  if (writing_[rank].valid()) {
    writing_[rank].get();
  }
}

std::vector<Saved> Writer::take_saved() {
  const std::lock_guard lock(mutex_);
  return std::exchange(saved_, {});
}

}  // namespace zerolab::checkpoint

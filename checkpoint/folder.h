#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace zerolab::checkpoint {

/// The checkpoints of one run: `step-00000100` and so on, and `latest`, a link to the newest that
/// is whole. What is being written has another name and is not seen here.
class Folder {
 public:
  explicit Folder(std::filesystem::path path) : path_(std::move(path)) {}
  const std::filesystem::path& path() const { return path_; }

  /// Steps of the checkpoints there are, in the order in which they were written: a run that was
  /// resumed from an older one writes lower steps later.
  std::vector<int64_t> steps() const;
  std::filesystem::path of_step(int64_t step) const;

  /// Makes an empty folder for what is to be written; what a killed run left goes.
  std::filesystem::path begin(int64_t step) const;
  /// Gives what was begun its name and moves `latest`: both, or the older ones stay valid.
  void commit(int64_t step) const;
  void abandon(int64_t step) const;
  /// Removes all but the last `keep` written (0: keeps all).
  void prune(int64_t keep) const;
  /// Removes what killed runs left.
  void clean() const;
  /// Where what is begun is written.
  std::filesystem::path unfinished(int64_t step) const;

 private:
  std::filesystem::path path_;
};

/// The checkpoint that `path` means: itself, or the newest of a run's folder or of its folder of
/// checkpoints. Throws `Error` that says what was looked for.
std::filesystem::path find_checkpoint(const std::filesystem::path& path);

constexpr const char* kFolderName = "checkpoints";  ///< in the run's

}  // namespace zerolab::checkpoint

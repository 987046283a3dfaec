#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace zerolab::app {

/// A file of a run, `<run folder>/<name>`, that key `log.<key>` asks for. Construction makes the
/// folder and finds out whether the file can be written, but leaves an older one as it is; the
/// first `write` replaces it. What one `write` is given goes to the system at once; a kill in
/// the middle of that can leave its beginning at the file's end. Faults are `Error`s that name the
/// file.
class RunFile {
 public:
  /// `appends`: nothing is replaced; writes go on at its end.
  RunFile(const std::filesystem::path& run_folder, std::string_view name, std::string_view key,
          bool appends = false);
  ~RunFile();
  RunFile(const RunFile&) = delete;
  RunFile& operator=(const RunFile&) = delete;

  void write(std::string_view text);
  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail_with(std::string_view what, int error) const;

  const std::string path_;
  const std::string key_;
  int descriptor_ = -1;
  bool begun_ = false;
};

}  // namespace zerolab::app

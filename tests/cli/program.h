#pragma once

#include <sys/types.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/data/test_files.h"

namespace zerolab::test {

/// What a program left when it ended.
struct Ended {
  int status = 0;  ///< its exit status; -1: it was killed, by a signal or by the test's patience
  std::string out;
  std::string err;
};

/// train-gpt as a process of its own, with `folder` as working directory and the file `input` as
/// standard input. Its output goes to the device `terminal`, or, where that is empty, to a file. It
/// is killed if it is still there at destruction.
class Program {
 public:
  Program(const data::TempDir& folder, const std::vector<std::string>& arguments,
          const std::string& terminal = "", const std::string& input = "/dev/null");
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void send(int signal) const;
  bool is_running();
  /// Waits for the end; kills the program after `seconds`.
  Ended wait(double seconds = 60.0);

 private:
  std::string out_;
  std::string err_;
  pid_t process_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

/// A folder with `text.txt`, an empty file and `small.toml`, a run of six steps on two ranks that
/// takes milliseconds, and what the tests do with it.
class SmallRun {
 public:
  SmallRun();
  /// Runs `train-gpt COMMAND small.toml`, with one --set for each of `settings`.
  Ended run(const std::string& command, const std::vector<std::string>& settings = {},
            const std::vector<std::string>& options = {}) const;
  /// The same, started only.
  std::unique_ptr<Program> start(const std::string& command,
                                 const std::vector<std::string>& settings = {},
                                 const std::vector<std::string>& options = {},
                                 const std::string& terminal = "") const;
  /// The records of a log, each line parsed.
  std::vector<nlohmann::json> log(const std::string& path = "runs/small/metrics.jsonl") const;
  const data::TempDir& folder() const { return folder_; }

 private:
  data::TempDir folder_;
};

std::string read_file(const std::string& path);
/// The program's file, for command lines of a shell.
std::string train_gpt();
/// The records of `event`.
std::vector<nlohmann::json> of_event(const std::vector<nlohmann::json>& log,
                                     const std::string& event);

}  // namespace zerolab::test

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "apps/train_gpt/metrics/run_file.h"

namespace zerolab::app {

/// Values by tag; tags with the same words before "/" are shown together.
using Scalars = std::vector<std::pair<std::string, double>>;

/// Writes `<run folder>/events.out.tfevents.zerolab`, which TensorBoard shows: a TFRecord a step,
/// each a protobuf `Event` and a write. Values are fp32 there.
class EventLog {
 public:
  /// A resumed run, after `steps_done`, has a file of its own; TensorBoard shows all of a folder.
  explicit EventLog(const std::filesystem::path& run_folder, int64_t steps_done = 0)
      : file_(run_folder,
              "events.out.tfevents.zerolab" +
                  (steps_done > 0 ? "." + std::to_string(steps_done) : std::string()),
              "tensorboard") {}

  void write(int64_t step, const Scalars& scalars);
  const std::string& path() const { return file_.path(); }

 private:
  RunFile file_;
  bool begun_ = false;
};

}  // namespace zerolab::app

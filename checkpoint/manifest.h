#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/part_file.h"
#include "checkpoint/train_state.h"
#include "framework/autograd/parameter.h"

namespace zerolab::checkpoint {

struct ParameterInfo {
  std::string name;
  std::vector<int64_t> shape;
  bool frozen = false;  ///< it has a weight only

  int64_t numel() const;
  bool operator==(const ParameterInfo&) const = default;
};
std::vector<ParameterInfo> describe(const std::vector<Parameter*>& parameters);

/// What a checkpoint holds: `manifest.json` in its folder, written last.
struct Manifest {
  TrainState state;
  std::vector<ParameterInfo> parameters;
  std::vector<std::string> tensors;  ///< of a parameter: "weight", then the optimizer's states
  std::vector<PartInfo> files;

  bool operator==(const Manifest&) const = default;
};

/// As text, with the format's version and a checksum of the rest.
std::string to_text(const Manifest& manifest);
/// Throws `Error`, which names `path`, for a text that is damaged, of something else, or of a later
/// version.
Manifest parse_manifest(const std::string& text, const std::filesystem::path& path);

constexpr const char* kManifestName = "manifest.json";
constexpr const char* kWeight = "weight";

}  // namespace zerolab::checkpoint

#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"

namespace zerolab::test {

/// All tensors of the newest checkpoint of a run, by name, as bits: equal maps, equal runs.
inline std::map<std::string, std::vector<uint32_t>> saved_tensors(
    const std::filesystem::path& run) {
  const checkpoint::Checkpoint saved(checkpoint::find_checkpoint(run));
  checkpoint::Reader reader(saved);
  std::map<std::string, std::vector<uint32_t>> tensors;
  for (const checkpoint::ParameterInfo& parameter : saved.manifest().parameters) {
    for (const std::string& tensor : saved.manifest().tensors) {
      std::vector<uint32_t>& bits = tensors[parameter.name + "/" + tensor];
      bits.resize(parameter.numel());
      reader.read(parameter.name, tensor, 0, {reinterpret_cast<float*>(bits.data()), bits.size()});
    }
  }
  return tensors;
}

}  // namespace zerolab::test

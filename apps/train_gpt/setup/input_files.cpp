#include "apps/train_gpt/setup/input_files.h"

#include <glob.h>

#include "apps/train_gpt/config/refuse.h"

namespace zerolab::app {
namespace {

/// The files that `pattern`, a path or a glob, names; sorted. A name of its own may be a folder.
std::vector<std::string> matches(const std::filesystem::path& pattern) {
  if (std::filesystem::exists(pattern)) {
    return {pattern.string()};
  }
  std::vector<std::string> files;
  glob_t found = {};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  std::erase_if(files, [](const std::string& file) { return std::filesystem::is_directory(file); });
  return files;
}

/// Absolute names, so that the dumped configuration runs from any folder.
std::vector<std::string> find_input(const RunConfig& config, const std::string& key,
                                    const std::filesystem::path& folder,
                                    const std::string& pattern) {
  const std::filesystem::path working = std::filesystem::current_path();
  for (const std::filesystem::path& base : {working / folder, working}) {
    std::vector<std::string> files = matches((base / pattern).lexically_normal());
    if (!files.empty()) {
      return files;
    }
  }
  refuse(config, key, "{} names no file; got \"{}\", expected a file in \"{}\" or \"{}\"", key,
         pattern, (working / folder).lexically_normal().string(), working.string());
}

}  // namespace

void find_inputs(RunConfig& config, const std::filesystem::path& folder) {
  std::vector<std::string> files;
  for (const std::string& pattern : config.data.path) {
    const std::vector<std::string> found = find_input(config, "data.path", folder, pattern);
    files.insert(files.end(), found.begin(), found.end());
  }
  config.data.path = files;
  if (!config.data.vocab.empty()) {
    config.data.vocab = find_input(config, "data.vocab", folder, config.data.vocab).front();
  }
  std::string& init_from = config.model.init_from;
  if (!init_from.empty()) {
    init_from = find_input(config, "model.init_from", folder, init_from).front();
  }
}

}  // namespace zerolab::app

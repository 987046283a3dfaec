#include "checkpoint/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "checkpoint/component.h"
#include "checkpoint/manifest.h"
#include "framework/core/error.h"
#include "framework/file/file.h"

namespace zerolab::checkpoint {
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kUnfinished = ".writing-";
constexpr const char* kLatest = "latest";

std::optional<int64_t> step_of(const std::string& name) {
  int64_t step = 0;
  if (!name.starts_with(kPrefix)) {
    return std::nullopt;
  }
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), last, step);
  return error == std::errc() && end == last ? std::optional(step) : std::nullopt;
}

std::string name_of(int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

bool is_checkpoint(const std::filesystem::path& path) {
  return std::filesystem::exists(path / kManifestName);
}

}  // namespace

std::vector<int64_t> Folder::steps() const {
  std::vector<std::pair<std::filesystem::file_time_type, int64_t>> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path_, error)) {
    const auto step = step_of(entry.path().filename().string());
    const auto time = std::filesystem::last_write_time(entry.path() / kManifestName, error);
    if (step.has_value() && !error) {
      found.emplace_back(time, *step);
    }
  }
  std::ranges::sort(found);
  std::vector<int64_t> steps;
  for (const auto& [time, step] : found) {
    steps.push_back(step);
  }
  return steps;
}

std::filesystem::path Folder::of_step(int64_t step) const { return path_ / name_of(step); }

std::filesystem::path Folder::unfinished(int64_t step) const {
  return path_ / (std::string(kUnfinished) + name_of(step));
}

std::filesystem::path Folder::begin(int64_t step) const {
  const std::filesystem::path path = unfinished(step);
  std::error_code error;
  std::filesystem::remove_all(path, error);
  std::filesystem::create_directories(path, error);
  require(!error, kComponent, "cannot make the folder '{}': {}", path.string(), error.message());
  return path;
}

void Folder::commit(int64_t step) const {
  sync_folder(unfinished(step));
  // A checkpoint of this step can be there from a run that was resumed from an earlier one.
  const std::filesystem::path older = path_ / (std::string(kUnfinished) + "older");
  if (std::filesystem::exists(of_step(step))) {
    std::filesystem::remove_all(older);
    rename_to(of_step(step), older);
  }
  rename_to(unfinished(step), of_step(step));
  const std::filesystem::path link = path_ / (std::string(kUnfinished) + kLatest);
  std::filesystem::remove(link);
  std::filesystem::create_directory_symlink(name_of(step), link);
  sync_folder(path_);  // the name is there before the link that means it
  rename_to(link, path_ / kLatest);
  sync_folder(path_);
  std::filesystem::remove_all(older);
}

void Folder::abandon(int64_t step) const {
  std::error_code error;  // of no use to anybody: `begin` tries again
  std::filesystem::remove_all(unfinished(step), error);
}

void Folder::prune(int64_t keep) const {
  const std::vector<int64_t> all = steps();
  for (size_t i = 0; keep > 0 && i + static_cast<size_t>(keep) < all.size(); ++i) {
    // Out of sight first: half a checkpoint must not be found under its name.
    rename_to(of_step(all[i]), unfinished(all[i]));
    abandon(all[i]);
  }
}

void Folder::clean() const {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path_, error)) {
    if (entry.path().filename().string().starts_with(kUnfinished)) {
      std::filesystem::remove_all(entry.path(), error);
    }
  }
}

std::filesystem::path find_checkpoint(const std::filesystem::path& path) {
  for (const std::filesystem::path& candidate :
       {path, path / kLatest, path / kFolderName / kLatest}) {
    if (is_checkpoint(candidate)) {
      return std::filesystem::canonical(candidate);
    }
  }
  // A kill between the two renames of a replaced checkpoint leaves `latest` without its folder.
  for (const std::filesystem::path& candidate : {path, path / kFolderName}) {
    const Folder folder(candidate);
    if (const std::vector<int64_t> steps = folder.steps(); !steps.empty()) {
      return std::filesystem::canonical(folder.of_step(steps.back()));
    }
  }
  fail(kComponent,
       "there is no checkpoint in '{}'; expected a checkpoint's folder (with {}), a run's folder, "
       "or "
       "its {}/",
       path.string(), kManifestName, kFolderName);
}

}  // namespace zerolab::checkpoint

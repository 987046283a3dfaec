#include "data/corpus.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <set>

#include "framework/core/error.h"

namespace zerolab::data {

namespace fs = std::filesystem;

namespace {

static_assert(std::endian::native == std::endian::little, "shards are read as they lie on disk");

constexpr std::string_view kShardSuffix = ".bin";
constexpr int32_t kShardMagic = 20240520;
constexpr int32_t kShardVersion = 1;
constexpr size_t kHeaderInts = 256;
constexpr size_t kHeaderBytes = kHeaderInts * sizeof(int32_t);

bool is_shard(const std::string& path) { return path.ends_with(kShardSuffix); }

/// The files that a pattern matches, sorted by byte value whatever the locale; folders are left
/// out.
std::vector<std::string> glob_files(const std::string& pattern) {
  glob_t matches{};
  const int status = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches);
  std::vector<std::string> files(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  ::globfree(&matches);
  require(status == 0 || status == GLOB_NOMATCH, "data",
          "cannot search for '{}'; got glob status {}, expected matches; name the files in a list",
          pattern, status);
  std::error_code ignored;
  std::erase_if(files, [&](const std::string& file) { return fs::is_directory(file, ignored); });
  std::sort(files.begin(), files.end());
  return files;
}

std::span<const uint16_t> tokens_of(const MappedFile& file) {
  const std::span<const std::byte> body = file.bytes().subspan(kHeaderBytes);
  return {reinterpret_cast<const uint16_t*>(body.data()), body.size() / sizeof(uint16_t)};
}

/// Throws unless the header is one of ours and counts exactly the tokens that the file holds.
void check_shard(const std::string& path, const MappedFile& file) {
  const std::span<const std::byte> bytes = file.bytes();
  require(
      bytes.size() >= kHeaderBytes, "data",
      "'{}' is no token shard; got {} bytes, expected a header of {}; is the file cut short, or "
      "a text named .bin?",
      path, bytes.size(), kHeaderBytes);
  std::array<int32_t, 3> header;
  std::memcpy(header.data(), bytes.data(), sizeof(header));
  const auto [magic, version, num_tokens] = header;
  require(magic == kShardMagic, "data",
          "'{}' is no token shard; got magic {}, expected {}; shards are written by llm.c's "
          "dev/data scripts for GPT-2 (uint16 tokens)",
          path, magic, kShardMagic);
  require(version == kShardVersion, "data",
          "'{}' has an unknown shard version; got {}, expected {}", path, version, kShardVersion);
  const auto expected = static_cast<int64_t>(kHeaderBytes) + int64_t{num_tokens} * 2;
  require(num_tokens >= 0 && static_cast<int64_t>(bytes.size()) == expected, "data",
          "the size of '{}' does not fit its header; got {} bytes, expected {} for {} tokens; is "
          "the file cut short?",
          path, bytes.size(), expected, num_tokens);
}

}  // namespace

std::vector<std::string> resolve_paths(std::span<const std::string> patterns) {
  if (patterns.empty()) {
    throw ConfigError("data", "no path; got an empty list, expected a file, a list or a pattern");
  }
  std::vector<std::string> paths;
  std::error_code ignored;
  for (const std::string& pattern : patterns) {
    // A file's own name comes first, so that 'part[1].txt' can be named as it is.
    if (fs::exists(pattern, ignored)) {
      paths.push_back(pattern);
      continue;
    }
    const std::vector<std::string> matches = glob_files(pattern);
    if (matches.empty()) {
      throw ConfigError("data",
                        fmt::format("no such file; got path '{}', expected a file or a "
                                    "pattern that matches one, in a folder that can be read; "
                                    "relative paths start at {}",
                                    pattern, fs::current_path(ignored).string()));
    }
    paths.insert(paths.end(), matches.begin(), matches.end());
  }
  std::set<fs::path> seen;
  for (const std::string& path : paths) {
    const fs::path canonical = fs::weakly_canonical(path, ignored);
    if (!seen.insert(canonical.empty() ? fs::path(path) : canonical).second) {
      throw ConfigError("data", fmt::format("a file is named twice; got '{}' again, expected each "
                                            "file once; do two patterns overlap?",
                                            path));
    }
  }
  return paths;
}

Corpus::Corpus(std::span<const std::string> patterns) : paths_(resolve_paths(patterns)) {
  kind_ = is_shard(paths_.front()) ? CorpusKind::kTokens : CorpusKind::kText;
  const auto other = std::find_if(paths_.begin(), paths_.end(), [&](const std::string& path) {
    return is_shard(path) != is_shard(paths_.front());
  });
  if (other != paths_.end()) {
    throw ConfigError("data", fmt::format("texts and .bin shards cannot be mixed; got '{}' and "
                                          "'{}', expected files of one kind",
                                          paths_.front(), *other));
  }
  size_t payload = 0;
  for (const std::string& path : paths_) {
    const MappedFile& file = files_.emplace_back(path);
    if (kind_ == CorpusKind::kTokens) {
      check_shard(path, file);
    }
    payload += file.bytes().size() - (kind_ == CorpusKind::kTokens ? kHeaderBytes : 0);
  }
  if (payload == 0) {
    throw ConfigError("data", fmt::format("the corpus is empty; got {} file(s) of no content, the "
                                          "first '{}', expected at least one token",
                                          paths_.size(), paths_.front()));
  }
}

std::vector<std::string_view> Corpus::texts() const {
  std::vector<std::string_view> views;
  if (kind_ == CorpusKind::kText) {
    for (const MappedFile& file : files_) {
      views.emplace_back(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    }
  }
  return views;
}

std::vector<std::span<const uint16_t>> Corpus::shards() const {
  std::vector<std::span<const uint16_t>> views;
  if (kind_ == CorpusKind::kTokens) {
    for (const MappedFile& file : files_) {
      views.push_back(tokens_of(file));
    }
  }
  return views;
}

}  // namespace zerolab::data

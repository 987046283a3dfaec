#include "data/corpus.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "data/shard_header.h"
#include "framework/core/error.h"

namespace zerolab::data {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kShardSuffix = ".bin";

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

/// llm.c's files begin with the date of their format, such as 20240520.
bool has_header(std::span<const std::byte> bytes) {
  int32_t magic = 0;
  if (bytes.size() >= sizeof(magic)) {
    std::memcpy(&magic, bytes.data(), sizeof(magic));
  }
  return magic / 10'000 == ShardHeader::kMagic / 10'000;
}

void check_header(const std::string& path, std::span<const std::byte> bytes) {
  require(bytes.size() >= sizeof(ShardHeader), "data",
          "'{}' is no token shard; got {} bytes, expected a header of {}; is the file cut short?",
          path, bytes.size(), sizeof(ShardHeader));
  ShardHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  require(header.magic == ShardHeader::kMagic, "data",
          "'{}' is no token shard; got magic {}, expected {}; shards are written by `train-gpt "
          "prepare` and llm.c's dev/data scripts for GPT-2 (uint16 tokens)",
          path, header.magic, ShardHeader::kMagic);
  require(header.version == ShardHeader::kVersion, "data",
          "'{}' has an unknown shard version; got {}, expected {}", path, header.version,
          ShardHeader::kVersion);
  const auto expected = static_cast<int64_t>(sizeof(header)) + int64_t{header.num_tokens} * 2;
  require(header.num_tokens >= 0 && static_cast<int64_t>(bytes.size()) == expected, "data",
          "the size of '{}' does not fit its header; got {} bytes, expected {} for {} tokens; is "
          "the file cut short?",
          path, bytes.size(), expected, header.num_tokens);
}

/// Of two bytes a token one is small in any text, and a text file holds no such byte.
bool looks_like_text(std::span<const std::byte> bytes) {
  const auto start = bytes.first(std::min<size_t>(bytes.size(), 4096));
  return !start.empty() &&
         std::ranges::none_of(start, [](std::byte b) { return b < std::byte{9}; });
}

/// The tokens of a `.bin` file; throws where it is none.
std::span<const uint16_t> tokens_of(const std::string& path, std::span<const std::byte> bytes) {
  if (has_header(bytes)) {
    check_header(path, bytes);
    bytes = bytes.subspan(sizeof(ShardHeader));
  } else {
    require(bytes.size() % sizeof(uint16_t) == 0 && !looks_like_text(bytes), "data",
            "'{}' is no file of tokens; got {} bytes without llm.c's magic {}, expected that, or "
            "uint16 tokens alone; is the file cut short, or a text named .bin?",
            path, bytes.size(), ShardHeader::kMagic);
  }
  return {reinterpret_cast<const uint16_t*>(bytes.data()), bytes.size() / sizeof(uint16_t)};
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
    const std::span<const std::byte> bytes = files_.emplace_back(path).bytes();
    if (kind_ == CorpusKind::kTokens) {
      payload += shards_.emplace_back(tokens_of(path, bytes)).size();
    } else {
      payload += bytes.size();
    }
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

}  // namespace zerolab::data

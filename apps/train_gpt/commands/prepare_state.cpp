#include "apps/train_gpt/commands/prepare_state.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/core/hash.h"
#include "framework/file/durable_file.h"

namespace zerolab::app {

namespace {

constexpr int kStateVersion = 1;

void require_same(bool same, const std::string& what) {
  if (!same) {
    throw ConfigError("prepare",
                      fmt::format("the shards there were made otherwise: {}; prepare them with the "
                                  "same inputs and options, or into another folder",
                                  what));
  }
}

}  // namespace

void PrepareState::require_same_result(const PrepareState& wanted) const {
  const auto require_same_option = [](const char* what, const auto& had, const auto& wants) {
    require_same(had == wants, fmt::format("{}; got {}, expected {}", what, wants, had));
  };
  require_same_option("the tokenizer", tokenizer, wanted.tokenizer);
  require_same_option("the vocabulary's hash", vocab_hash, wanted.vocab_hash);
  require_same_option("tokens of a shard", shard_tokens, wanted.shard_tokens);
  require_same_option("the number of inputs", inputs.size(), wanted.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    require_same_option("an input", inputs[i].path, wanted.inputs[i].path);
    require_same(inputs[i] == wanted.inputs[i],
                 fmt::format("'{}' has changed; got {} bytes, expected {} and the same time",
                             inputs[i].path, wanted.inputs[i].bytes, inputs[i].bytes));
  }
}

void PrepareState::save(const std::filesystem::path& path) const {
  nlohmann::json files = nlohmann::json::array();
  for (const Input& input : inputs) {
    files.push_back({{"path", input.path}, {"bytes", input.bytes}, {"modified", input.modified}});
  }
  const nlohmann::json json = {
      {"version", kStateVersion},
      {"tokenizer", tokenizer},
      {"vocab_size", vocab_size},
      {"vocab_hash", vocab_hash},
      {"shard_tokens", shard_tokens},
      {"inputs", files},
      {"shards", shards},
      {"tokens", tokens},
      {"next", {{"input", next.text}, {"offset", next.offset}, {"skip", next.skip}}},
      {"complete", complete}};
  DurableFile file(path);
  // A path need not be UTF-8.
  file.write(json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  file.commit();
}

PrepareState PrepareState::load(const std::filesystem::path& path) {
  try {
    const nlohmann::json json = nlohmann::json::parse(std::ifstream(path));
    const int version = json.at("version").get<int>();
    require(version == kStateVersion, "prepare", "unknown version; got {}, expected {}", version,
            kStateVersion);
    PrepareState state;
    json.at("tokenizer").get_to(state.tokenizer);
    json.at("vocab_size").get_to(state.vocab_size);
    json.at("vocab_hash").get_to(state.vocab_hash);
    json.at("shard_tokens").get_to(state.shard_tokens);
    for (const nlohmann::json& input : json.at("inputs")) {
      state.inputs.push_back({input.at("path"), input.at("bytes").get<int64_t>(),
                              input.at("modified").get<int64_t>()});
    }
    json.at("shards").get_to(state.shards);
    json.at("tokens").get_to(state.tokens);
    json.at("next").at("input").get_to(state.next.text);
    json.at("next").at("offset").get_to(state.next.offset);
    json.at("next").at("skip").get_to(state.next.skip);
    json.at("complete").get_to(state.complete);
    return state;
  } catch (const std::exception& error) {
    fail("prepare", "'{}' is damaged: {}; prepare into another folder", path.string(),
         error.what());
  }
}

uint64_t vocab_hash(const data::Tokenizer& tokenizer) {
  std::string all;
  for (int32_t token = 0; token < tokenizer.vocab_size(); ++token) {
    all += tokenizer.decode(std::span(&token, 1)) + '\n';
  }
  return hash_of(all);
}

PrepareState::Input describe_input(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw ConfigError(
        "prepare",
        fmt::format("'{}' is no file; expected a text file, or - for standard input", path));
  }
  return {std::filesystem::absolute(path).lexically_normal().string(), status.st_size,
          int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

}  // namespace zerolab::app

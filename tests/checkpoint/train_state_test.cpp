#include "checkpoint/train_state.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "checkpoint/manifest.h"
#include "framework/core/error.h"
#include "tests/data/test_files.h"

namespace zerolab::checkpoint {
namespace {

/// Every field, each with a change that a run could make to it.
const std::vector<std::function<void(TrainState&)>> kChanges = {
    [](TrainState& state) { state.step = 7; },
    [](TrainState& state) { state.samples = 56; },
    [](TrainState& state) { state.tokens = 1'000'000'000'000; },
    [](TrainState& state) { state.engine.updates = 6; },
    [](TrainState& state) { state.engine.attempts = 8; },
    [](TrainState& state) { state.engine.skipped_in_a_row = 2; },
    [](TrainState& state) { state.engine.loss_scale.dynamic = true; },
    [](TrainState& state) { state.engine.loss_scale.scale = 0x1p-24; },
    [](TrainState& state) { state.engine.loss_scale.hysteresis_left = 1; },
    [](TrainState& state) { state.engine.loss_scale.good_steps = 999; },
    [](TrainState& state) { state.config = "[run]\nname = \"a \\\"b\\\" é\"\n"; },
    [](TrainState& state) { state.vocabulary = std::string("\0\xFF\n\"", 4); },
    [](TrainState& state) { state.stage = 2; },
    [](TrainState& state) { state.world_size = 64; },
    [](TrainState& state) { state.layout = "contiguous"; },
    [](TrainState& state) { state.precision = "bf16"; },
    [](TrainState& state) { state.bucket_size = 500'000'000; },
};

TEST(TrainState, EveryFieldIsHeld) {
  TrainState all;
  for (const auto& change : kChanges) {
    TrainState one;
    change(one);
    EXPECT_NE(one, TrainState());
    EXPECT_EQ(nlohmann::json(one).get<TrainState>(), one);
    change(all);
  }
  const TrainState back = nlohmann::json::parse(nlohmann::json(all).dump()).get<TrainState>();
  EXPECT_EQ(back, all);
}

/// The test above would not see a field that it does not know: JSON's must be as many.
TEST(TrainState, NoFieldIsForgotten) {
  const nlohmann::json json = TrainState();
  EXPECT_EQ(json.size() - 1 + json.at("loss_scale").size(), kChanges.size());
  for (const auto& [key, value] : json.items()) {
    nlohmann::json without = json;
    without.erase(key);
    EXPECT_THROW(without.get<TrainState>(), std::exception) << key;
  }
}

/// What the JSON library would convert to an integer is none.
TEST(TrainState, FractionsAndTooLargeNumbersAreRefused) {
  for (const char* number : {"1.5", "1e60", "9223372036854775808", "\"3\"", "null", "true"}) {
    nlohmann::json json = TrainState();
    json["tokens"] = nlohmann::json::parse(number);
    EXPECT_NE(data::message_of<Error>([&] { json.get<TrainState>(); }).find("no integer"),
              std::string::npos)
        << number;
  }
}

Manifest some_manifest() {
  Manifest manifest;
  manifest.state.step = 3;
  manifest.parameters = {{"a.weight", {2, 3}, false}, {"b", {}, true}};
  manifest.tensors = {"weight", "exp_avg"};
  manifest.files = {{"part-000.safetensors", 123, "0123456789abcdef"}};
  return manifest;
}

std::string refusal(const std::string& text) {
  return data::message_of<Error>([&] { parse_manifest(text, "there/manifest.json"); });
}

TEST(Manifest, IsReadAsItWasWritten) {
  EXPECT_EQ(parse_manifest(to_text(some_manifest()), "x"), some_manifest());
}

/// No bit of it can change unseen, but for blanks between its words.
TEST(Manifest, EveryFlippedByteIsFound) {
  const std::string text = to_text(some_manifest());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ' || text[i] == '\n') {
      continue;
    }
    std::string damaged = text;
    damaged[i] ^= 1;
    EXPECT_NE(refusal(damaged).find("'there/manifest.json' cannot be used"), std::string::npos)
        << i;
  }
  for (size_t length = 0; length < text.size() - 1; ++length) {
    EXPECT_NE(refusal(text.substr(0, length)), "");
  }
}

TEST(Manifest, OfSomethingElseOrOfAnotherVersionIsSaidToBe) {
  EXPECT_NE(refusal("{}").find("no manifest of a zerolab checkpoint"), std::string::npos);
  EXPECT_NE(refusal("[]").find("no manifest of a zerolab checkpoint"), std::string::npos);
  std::string later = to_text(some_manifest());
  later.replace(later.find("\"version\": 1"), 12, "\"version\": 2");
  EXPECT_NE(refusal(later).find("format version 2, expected 1"), std::string::npos);
}

}  // namespace
}  // namespace zerolab::checkpoint

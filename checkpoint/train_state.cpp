#include "checkpoint/train_state.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"

namespace zerolab::checkpoint {
namespace {

/// Bytes of any kind, which JSON's text cannot hold.
std::string hex_of(const std::string& bytes) {
  std::string hex;
  for (const unsigned char byte : bytes) {
    hex += fmt::format("{:02x}", byte);
  }
  return hex;
}

std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    unsigned byte = 0;
    const auto [end, error] = std::from_chars(&hex[i], &hex[i] + 2, byte, 16);
    require(error == std::errc() && end == &hex[i] + 2, "checkpoint", "'{}' is no hexadecimal text",
            hex);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace

void to_json(nlohmann::json& json, const TrainState& state) {
  json = {{"step", state.step},
          {"samples", state.samples},
          {"tokens", state.tokens},
          {"updates", state.engine.updates},
          {"attempts", state.engine.attempts},
          {"skipped_in_a_row", state.engine.skipped_in_a_row},
          {"loss_scale",
           {{"dynamic", state.engine.loss_scale.dynamic},
            {"scale", state.engine.loss_scale.scale},
            {"hysteresis_left", state.engine.loss_scale.hysteresis_left},
            {"good_steps", state.engine.loss_scale.good_steps}}},
          {"config", state.config},
          {"vocabulary", hex_of(state.vocabulary)},
          {"stage", state.stage},
          {"world_size", state.world_size},
          {"layout", state.layout},
          {"precision", state.precision},
          {"bucket_size", state.bucket_size}};
}

void from_json(const nlohmann::json& json, TrainState& state) {
  json.at("step").get_to(state.step);
  json.at("samples").get_to(state.samples);
  json.at("tokens").get_to(state.tokens);
  json.at("updates").get_to(state.engine.updates);
  json.at("attempts").get_to(state.engine.attempts);
  json.at("skipped_in_a_row").get_to(state.engine.skipped_in_a_row);
  const nlohmann::json& scale = json.at("loss_scale");
  scale.at("dynamic").get_to(state.engine.loss_scale.dynamic);
  scale.at("scale").get_to(state.engine.loss_scale.scale);
  scale.at("hysteresis_left").get_to(state.engine.loss_scale.hysteresis_left);
  scale.at("good_steps").get_to(state.engine.loss_scale.good_steps);
  json.at("config").get_to(state.config);
  state.vocabulary = bytes_of(json.at("vocabulary").get<std::string>());
  json.at("stage").get_to(state.stage);
  json.at("world_size").get_to(state.world_size);
  json.at("layout").get_to(state.layout);
  json.at("precision").get_to(state.precision);
  json.at("bucket_size").get_to(state.bucket_size);
  for (const int64_t count : {state.step, state.samples, state.tokens, state.engine.updates,
                              state.engine.attempts, int64_t{state.engine.skipped_in_a_row}}) {
    require(count >= 0, "checkpoint", "a count of the training state is negative: {}", count);
  }
}

}  // namespace zerolab::checkpoint

#include "checkpoint/train_state.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "checkpoint/json_integer.h"
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
  state.step = integer_of<int64_t>(json.at("step"));
  state.samples = integer_of<int64_t>(json.at("samples"));
  state.tokens = integer_of<int64_t>(json.at("tokens"));
  state.engine.updates = integer_of<int64_t>(json.at("updates"));
  state.engine.attempts = integer_of<int64_t>(json.at("attempts"));
  state.engine.skipped_in_a_row = integer_of<int>(json.at("skipped_in_a_row"));
  const nlohmann::json& scale = json.at("loss_scale");
  scale.at("dynamic").get_to(state.engine.loss_scale.dynamic);
  scale.at("scale").get_to(state.engine.loss_scale.scale);
  state.engine.loss_scale.hysteresis_left = integer_of<int>(scale.at("hysteresis_left"));
  state.engine.loss_scale.good_steps = integer_of<int>(scale.at("good_steps"));
  json.at("config").get_to(state.config);
  state.vocabulary = bytes_of(json.at("vocabulary").get<std::string>());
  state.stage = integer_of<int64_t>(json.at("stage"));
  state.world_size = integer_of<int64_t>(json.at("world_size"));
  json.at("layout").get_to(state.layout);
  json.at("precision").get_to(state.precision);
  state.bucket_size = integer_of<int64_t>(json.at("bucket_size"));
  for (const int64_t count : {state.step, state.samples, state.tokens, state.engine.updates,
                              state.engine.attempts, int64_t{state.engine.skipped_in_a_row}}) {
    require(count >= 0, "checkpoint", "a count of the training state is negative: {}", count);
  }
}

}  // namespace zerolab::checkpoint

#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "zero/engine.h"

namespace zerolab::checkpoint {

/// All that a run goes on from beside tensors: one list for what a checkpoint holds, and what a
/// resume needs. The random numbers follow from seed, step and sample (Philox), so that the seed in
/// the configuration is the generator's whole state.
struct TrainState {
  int64_t step = 0;     ///< attempted; the next one's global batch begins at `samples`
  int64_t samples = 0;  ///< the data position: global samples that have been trained on
  int64_t tokens = 0;
  zero::EngineState engine;
  std::string config;      ///< the effective configuration, as TOML
  std::string vocabulary;  ///< of a tokenizer that was made from the data: its decoded tokens

  // How it was trained: a resume may choose others.
  int64_t stage = 0;
  int64_t world_size = 1;
  std::string layout;     ///< "bucketed" or "contiguous"
  std::string precision;  ///< the parameters' dtype
  int64_t bucket_size = 0;

  bool operator==(const TrainState&) const = default;
};

void to_json(nlohmann::json& json, const TrainState& state);
/// Throws an exception of the JSON library or `Error` if a field is missing or impossible.
void from_json(const nlohmann::json& json, TrainState& state);

}  // namespace zerolab::checkpoint

#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace zerolab::app {

// One struct a section of the file; units, ranges and meanings are in config_table.cpp, whose
// entries also give `train-gpt --help`. Where a key may be "auto", 0 stands for it.

struct RunSection {
  std::string name = "run";
  std::string out_dir = "runs";
  int64_t seed = 1337;
  int64_t steps = 100;
  int64_t eval_every = 0;
  int64_t eval_batches = 0;
  int64_t sample_every = 0;
  std::string sample_prompt;
  int64_t log_every = 1;
};

struct LaunchSection {
  int64_t ranks = 1;
  std::string device = "auto";
  std::string backend = "onednn";
  std::string attention = "flash";
  int64_t threads_per_rank = 0;
  int64_t memory_limit = 0;
};

struct ModelSection {
  int64_t n_layer = 4;
  int64_t n_head = 4;
  int64_t n_embd = 128;
  int64_t block_size = 128;
  int64_t vocab_size = 0;
  bool bias = true;
  double dropout = 0.0;
  bool tie_weights = true;
  std::string init_from;
};

struct DataSection {
  std::vector<std::string> path;
  std::string tokenizer = "byte";
  std::string vocab;
  std::string order = "shuffled";
  double val_fraction = 0.1;
};

struct TrainSection {
  int64_t train_batch_size = 0;
  int64_t micro_batch_size = 0;
  int64_t gradient_accumulation_steps = 0;
  std::string precision = "fp32";
  int64_t max_skipped_steps = 10;
};

struct LossScaleSection {
  std::string mode = "auto";
  double initial = 0.0;
  int64_t window = 1000;
  int64_t hysteresis = 2;
  double min = 1.0;
};

struct OptimizerSection {
  std::string name = "adamw";
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0.0;
  double gradient_clipping = 1.0;
};

struct ScheduleSection {
  std::string name = "constant";
  int64_t warmup_steps = 0;
  double min_lr = 0.0;
};

/// Before step `step` (from 1) the run switches to `stage`.
struct StageSwitch {
  int64_t step = 0;
  int64_t stage = 0;
};
void to_json(nlohmann::json& json, const StageSwitch& change);

/// The keys keep DeepSpeed's names and meanings.
struct ZeroSection {
  int64_t stage = 0;
  std::string layout = "bucketed";
  bool reduce_scatter = true;
  int64_t reduce_bucket_size = 0;
  int64_t allgather_bucket_size = 0;
  bool contiguous_gradients = true;
  bool overlap_comm = false;
  bool prescale_gradients = false;
  double gradient_predivide_factor = 1.0;
  std::string communication_dtype = "auto";
  std::string gradient_accumulation_dtype = "auto";
  bool reduce_each_micro_batch = false;
  std::vector<StageSwitch> schedule;
};

struct LogSection {
  bool metrics = true;
  std::string console = "auto";
  bool tensorboard = false;
  bool trace = false;
  int64_t trace_first_step = 2;
  int64_t trace_steps = 3;
  std::string dashboard;
  double peak_tflops = 0.0;
};

struct CheckpointSection {
  int64_t every = 0;
  int64_t keep = 2;
  bool on_signal = true;
};

struct CommSection {
  double timeout_s = 300.0;
  double bandwidth_gbps = 0.0;
  double latency_us = 0.0;
};

struct DebugSection {
  bool poison = false;
  int64_t hash_every = 0;
  double jitter = 0.0;
};

struct RunConfig {
  RunSection run;
  LaunchSection launch;
  ModelSection model;
  DataSection data;
  TrainSection train;
  LossScaleSection loss_scale;
  OptimizerSection optimizer;
  ScheduleSection schedule;
  ZeroSection zero;
  LogSection log;
  CheckpointSection checkpoint;
  CommSection comm;
  DebugSection debug;

  std::string source = "defaults";  ///< The file's name, for messages.
  /// "zero.stage" → "demo.toml:12" or "--set zero.stage"; also "zero.schedule[0]".
  std::map<std::string, std::string> set_at;

  /// Where `key` was set, or the file if it has its default: for messages.
  const std::string& place_of(const std::string& key) const {
    const auto place = set_at.find(key);
    return place == set_at.end() ? source : place->second;
  }
};

/// Reads a configuration as it is written: nothing is derived or looked up
/// (setup/resolve_config.h does that). `source` is the name that messages give. Each fault is a
/// `ConfigError` that gives place, key, what was got and what was expected.
RunConfig parse_config(const std::string& toml_text, const std::string& source);
RunConfig read_config(const std::filesystem::path& file);
void apply_override(RunConfig& config, const std::string& assignment);

/// The effective configuration: as a file that can be run again, and as {"zero.stage": 2, …}.
std::string dump_toml(const RunConfig& config);
nlohmann::json to_json(const RunConfig& config);

/// Every section and key with default, meaning, unit, range, and whether this version has it.
std::string config_help();

}  // namespace zerolab::app

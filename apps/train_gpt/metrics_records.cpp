#include "apps/train_gpt/metrics_records.h"

#include <fmt/core.h>

#include <fstream>
#include <numeric>
#include <thread>

#include "apps/train_gpt/modelled_link.h"
#include "apps/train_gpt/version.h"

namespace zerolab::app {
namespace {

nlohmann::json memory_json(const MemoryLedger::Snapshot& memory) {
  nlohmann::json json;
  for (int i = 0; i < kNumCategories; ++i) {
    if (memory.peak[i] > 0) {
      json[name_of(static_cast<Category>(i))] = {{"current", memory.current[i]},
                                                 {"peak", memory.peak[i]},
                                                 {"at_total_peak", memory.at_total_peak[i]}};
    }
  }
  json["total"] = {{"current", memory.total}, {"peak", memory.total_peak}};
  return json;
}

nlohmann::json memory_json(const std::vector<MemoryLedger::Snapshot>& ranks) {
  nlohmann::json json = nlohmann::json::array();
  for (const MemoryLedger::Snapshot& memory : ranks) {
    json.push_back(memory_json(memory));
  }
  return json;
}

/// What each category holds, and the total.
nlohmann::json bytes_json(const CategoryBytes& bytes) {
  nlohmann::json json;
  for (int i = 0; i < kNumCategories; ++i) {
    if (bytes[i] > 0) {
      json[name_of(static_cast<Category>(i))] = bytes[i];
    }
  }
  json["total"] = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  return json;
}

void add_entries(nlohmann::json& json, const CommunicationEntries& entries) {
  for (const auto& [key, entry] : entries) {
    nlohmann::json& sum = json[fmt::format("{} {}", name_of(key.first), name_of(key.second))];
    if (sum.is_null()) {
      sum = {{"calls", 0}, {"bytes_sent", 0}, {"wait_ms", 0.0}, {"transfer_ms", 0.0}};
    }
    sum["calls"] = sum["calls"].get<int64_t>() + entry.calls;
    sum["bytes_sent"] = sum["bytes_sent"].get<int64_t>() + entry.bytes_sent;
    sum["wait_ms"] = sum["wait_ms"].get<double>() + entry.wait_ms;
    sum["transfer_ms"] = sum["transfer_ms"].get<double>() + entry.transfer_ms;
  }
}

nlohmann::json communication_json(const std::vector<CommunicationEntries>& ranks) {
  nlohmann::json rank0 = nlohmann::json::object();
  nlohmann::json all_ranks = nlohmann::json::object();
  add_entries(rank0, ranks[0]);
  for (const CommunicationEntries& entries : ranks) {
    add_entries(all_ranks, entries);
  }
  return {{"rank0", rank0}, {"all_ranks", all_ranks}};
}

nlohmann::json times_json(const StepTimes& ms) {
  return {{"forward", ms.forward},           {"backward", ms.backward},
          {"comm_wait", ms.comm_wait},       {"comm_transfer", ms.comm_transfer},
          {"comm_exposed", ms.comm_exposed}, {"comm_hidden", ms.comm_hidden()},
          {"optimizer", ms.optimizer},       {"step", ms.step}};
}

/// The processor's name as Linux tells it: with the compiler and the threads it decides what bits
/// can be compared.
std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) {
      return line.substr(line.find(':') + 2);
    }
  }
  return "unknown";
}

}  // namespace

nlohmann::json config_record(const RunConfig& config) {
  return {{"event", "config"},
          {"version", kVersion},
          {"source", config.source},
          {"machine",
           {{"processor", processor()},
            {"cores", std::thread::hardware_concurrency()},
            {"compiler", __VERSION__}}},
          {"modelled_link", modelled_link_json(config.comm)},
          {"config", to_json(config)}};
}

nlohmann::json layout_record(const RunInfo& info) {
  nlohmann::json state;
  for (const zero::StateBytes& bytes : info.state) {
    state[name_of(bytes.category)] = {
        {"formula", bytes.formula}, {"padding", bytes.padding()}, {"bytes", bytes.bytes}};
  }
  return {{"event", "layout"},
          {"num_params", info.num_params},
          {"padding", info.padding},
          {"buckets", info.num_buckets},
          {"communicator", info.communicator},
          {"reduce_bucket_size", info.options.reduce_bucket_size},
          {"hash", fmt::format("{:016x}", info.layout_hash)},
          {"vocab_size", info.vocab_size},
          {"state_bytes", state},
          {"bytes_sent_per_step",
           {{"formula", info.communication.formula},
            {"gradients", info.communication.gradients},
            {"parameters", info.communication.parameters}}}};
}

nlohmann::json step_record(const StepRecord& record) {
  return {{"event", "step"},
          {"step", record.step},
          {"loss", record.result.loss},
          {"grad_norm", record.result.gradient_norm},
          {"lr", record.learning_rate},
          {"loss_scale", record.result.loss_scale},
          {"tokens", record.result.tokens},
          {"tokens_per_s", record.tokens_per_s()},
          {"ms", times_json(record.ms)},
          {"comm", communication_json(record.communication)},
          {"memory", memory_json(record.memory)}};
}

nlohmann::json skip_record(const StepRecord& record) {
  const zero::NonFinite& reason = *record.result.skipped;
  nlohmann::json json = {{"event", "skip"},
                         {"step", record.step},
                         {"kind", reason.kind},
                         {"parameter", reason.parameter},
                         {"index", reason.index},
                         {"owner_rank", reason.owner_rank},
                         {"loss_scale", record.result.loss_scale}};
  if (!reason.source_ranks.empty()) {
    json["source_ranks"] = reason.source_ranks;
  }
  return json;
}

nlohmann::json stage_record(const StageRecord& record) {
  nlohmann::json memory = nlohmann::json::array();
  for (const StageRecord::Memory& rank : record.memory) {
    memory.push_back({{"before", bytes_json(rank.before)},
                      {"after", bytes_json(rank.after)},
                      {"peak", rank.peak}});
  }
  return {{"event", "stage"}, {"step", record.step}, {"from", record.from},
          {"to", record.to},  {"ms", record.ms},     {"memory", memory}};
}

nlohmann::json evaluation_record(const EvaluationRecord& record) {
  return {{"event", "eval"},
          {"step", record.step},
          {"loss", record.evaluation.loss},
          {"tokens", record.evaluation.tokens}};
}

nlohmann::json summary_record(const RunSummary& summary) {
  nlohmann::json json = {{"event", "summary"},
                         {"stage", summary.info.options.stage},
                         {"steps", summary.steps},
                         {"skipped_steps", summary.skipped_steps},
                         {"stopped", summary.stopped},
                         {"excess_buffers", summary.excess_buffers},
                         {"tokens_per_s", summary.tokens_per_s},
                         {"ms", times_json(summary.ms)},
                         {"comm", communication_json(summary.communication)},
                         {"bytes_sent_per_step", summary.bytes_sent_per_step()},
                         {"memory", memory_json(summary.memory)}};
  if (!summary.losses.empty()) {
    json["final_loss"] = summary.losses.back();
  }
  if (summary.evaluation.has_value()) {
    json["eval_loss"] = summary.evaluation->loss;
  }
  return json;
}

Scalars step_scalars(const StepRecord& record) {
  Scalars scalars = {{"loss/train", record.result.loss},
                     {"grad_norm", record.result.gradient_norm},
                     {"lr", record.learning_rate},
                     {"tokens_per_s", record.tokens_per_s()}};
  CategoryBytes peaks = {};
  int64_t total = 0;
  for (const MemoryLedger::Snapshot& memory : record.memory) {
    total = std::max(total, memory.total_peak);
    for (int i = 0; i < kNumCategories; ++i) {
      peaks[i] = std::max(peaks[i], memory.peak[i]);
    }
  }
  for (int i = 0; i < kNumCategories; ++i) {
    if (peaks[i] > 0) {
      scalars.emplace_back(fmt::format("memory/{}", name_of(static_cast<Category>(i))), peaks[i]);
    }
  }
  scalars.emplace_back("memory/total", total);
  std::map<Purpose, int64_t> sent;
  for (const CommunicationEntries& entries : record.communication) {
    for (const auto& [key, entry] : entries) {
      sent[key.second] += entry.bytes_sent;
    }
  }
  for (const auto& [purpose, bytes] : sent) {
    scalars.emplace_back(fmt::format("bytes_sent/{}", name_of(purpose)), bytes);
  }
  return scalars;
}

Scalars evaluation_scalars(const EvaluationRecord& record) {
  return {{"loss/eval", record.evaluation.loss}};
}

}  // namespace zerolab::app

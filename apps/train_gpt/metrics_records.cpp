#include "apps/train_gpt/metrics_records.h"

#include <fmt/core.h>

#include <fstream>
#include <thread>

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

void add_entries(nlohmann::json& json, const CommunicationEntries& entries) {
  for (const auto& [key, entry] : entries) {
    nlohmann::json& sum = json[fmt::format("{} {}", name_of(key.first), name_of(key.second))];
    if (sum.is_null()) {
      sum = {{"calls", 0}, {"bytes_sent", 0}};
    }
    sum["calls"] = sum["calls"].get<int64_t>() + entry.calls;
    sum["bytes_sent"] = sum["bytes_sent"].get<int64_t>() + entry.bytes_sent;
  }
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
  nlohmann::json rank0 = nlohmann::json::object();
  nlohmann::json all_ranks = nlohmann::json::object();
  add_entries(rank0, record.communication[0]);
  for (const CommunicationEntries& entries : record.communication) {
    add_entries(all_ranks, entries);
  }
  return {{"event", "step"},
          {"step", record.step},
          {"loss", record.result.loss},
          {"grad_norm", record.result.gradient_norm},
          {"lr", record.learning_rate},
          {"loss_scale", 1.0},
          {"tokens", record.result.tokens},
          {"tokens_per_s", record.tokens_per_s()},
          {"ms", times_json(record.ms)},
          {"comm", {{"rank0", rank0}, {"all_ranks", all_ranks}}},
          {"memory", memory_json(record.memory)}};
}

nlohmann::json skip_record(const StepRecord& record) {
  const zero::NonFinite& reason = *record.result.skipped;
  return {{"event", "skip"},       {"step", record.step},
          {"kind", reason.kind},   {"parameter", reason.parameter},
          {"index", reason.index}, {"owner_rank", reason.owner_rank}};
}

nlohmann::json evaluation_record(const EvaluationRecord& record) {
  return {{"event", "eval"},
          {"step", record.step},
          {"loss", record.evaluation.loss},
          {"tokens", record.evaluation.tokens}};
}

nlohmann::json summary_record(const RunSummary& summary) {
  nlohmann::json communication = nlohmann::json::object();
  add_entries(communication, summary.communication);
  nlohmann::json json = {{"event", "summary"},
                         {"stage", summary.info.options.stage},
                         {"steps", summary.steps},
                         {"skipped_steps", summary.skipped_steps},
                         {"stopped", summary.stopped},
                         {"excess_buffers", summary.excess_buffers},
                         {"tokens_per_s", summary.tokens_per_s},
                         {"ms", times_json(summary.ms)},
                         {"comm", communication},
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

}  // namespace zerolab::app

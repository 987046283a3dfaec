#include "apps/train_gpt/metrics/metrics_records.h"

#include <fmt/core.h>

#include <numeric>

#include "apps/train_gpt/metrics/environment.h"
#include "apps/train_gpt/metrics/version.h"
#include "apps/train_gpt/setup/modelled_link.h"

namespace zerolab::app {
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

nlohmann::json communication_json(const CommunicationEntries& entries) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [key, entry] : entries) {
    json[fmt::format("{} {}", name_of(key.first), name_of(key.second))] = {
        {"calls", entry.calls},
        {"bytes_sent", entry.bytes_sent},
        {"wait_ms", entry.wait_ms},
        {"transfer_ms", entry.transfer_ms}};
  }
  return json;
}

nlohmann::json times_json(const StepTimes& ms) {
  return {{"forward", ms.forward},           {"backward", ms.backward},
          {"comm_wait", ms.comm_wait},       {"comm_transfer", ms.comm_transfer},
          {"comm_exposed", ms.comm_exposed}, {"comm_hidden", ms.comm_hidden()},
          {"optimizer", ms.optimizer},       {"step", ms.step}};
}

namespace {

nlohmann::json memory_of_ranks(const std::vector<MemoryLedger::Snapshot>& ranks) {
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

nlohmann::json communication_of_ranks(const std::vector<CommunicationEntries>& ranks) {
  CommunicationEntries all_ranks;
  for (const CommunicationEntries& entries : ranks) {
    add_entries(all_ranks, entries);
  }
  return {{"rank0", communication_json(ranks[0])}, {"all_ranks", communication_json(all_ranks)}};
}

}  // namespace

nlohmann::json config_record(const RunConfig& config) {
  return {{"event", "config"},
          {"version", kVersion},
          {"commit", kCommit},
          {"source", config.source},
          {"machine", environment_json(config)},
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
          {"reduce_bucket_size", info.layout->options().bucket_size},
          {"hash", fmt::format("{:016x}", info.layout->hash())},
          {"vocab_size", info.vocab_size},
          {"state_bytes", state},
          {"bytes_sent_per_step",
           {{"formula", info.communication.formula},
            {"gradients", info.communication.gradients},
            {"parameters", info.communication.parameters}}}};
}

nlohmann::json map_record(const zero::Layout& layout) {
  constexpr size_t kShown = 2000;
  nlohmann::json parameters = nlohmann::json::array();
  nlohmann::json slices = nlohmann::json::array();
  size_t num_slices = 0;
  for (size_t index = 0; index < layout.buckets().size(); ++index) {
    const zero::Bucket& bucket = layout.buckets()[index];
    for (const int parameter : bucket.parameters) {
      if (parameters.size() < kShown) {
        const zero::ParameterRange& range = layout.ranges()[parameter];
        parameters.push_back({{"name", layout.parameters()[parameter].name},
                              {"bucket", index},
                              {"offset", range.offset},
                              {"numel", range.numel}});
      }
    }
    num_slices += bucket.slices.size();
    for (const zero::Slice& slice : bucket.slices.all()) {
      if (slices.size() < kShown) {
        slices.push_back({{"owner", slice.owner},
                          {"bucket", index},
                          {"offset", bucket.offset + slice.bucket_offset},
                          {"numel", slice.numel}});
      }
    }
  }
  return {{"event", "map"},
          {"flat_numel", layout.flat_numel()},
          {"num_parameters", layout.parameters().size()},
          {"parameters", parameters},
          {"num_slices", num_slices},
          {"slices", slices}};
}

nlohmann::json timeline_record(const StepRecord& record) {
  nlohmann::json samples = nlohmann::json::array();
  for (const MemoryLedger::Sample& sample : record.timeline) {
    const auto since_begin = sample.time - record.timeline.front().time;
    samples.push_back(
        {{"phase", sample.bucket < 0 ? std::string(sample.phase)
                                     : fmt::format("bucket {} {}", sample.bucket, sample.phase)},
         {"ms", std::chrono::duration<double, std::milli>(since_begin).count()},
         {"bytes", bytes_json(sample.current)}});
  }
  return {{"event", "timeline"},
          {"step", record.step},
          {"stage", record.stage},
          {"rank", 0},
          {"samples", samples}};
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
          {"comm", communication_of_ranks(record.communication)},
          {"memory", memory_of_ranks(record.memory)}};
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

nlohmann::json checkpoint_record(const checkpoint::Saved& saved) {
  nlohmann::json json = {{"event", "checkpoint"},
                         {"step", saved.step},
                         {"bytes", saved.bytes},
                         {"seconds", saved.seconds},
                         {"blocked_ms", saved.blocked_ms}};
  json[saved.error.empty() ? "path" : "error"] = saved.error.empty() ? saved.path : saved.error;
  return json;
}

nlohmann::json resume_record(const checkpoint::Checkpoint& from, const std::string& note) {
  const checkpoint::TrainState& state = from.manifest().state;
  return {{"event", "resume"},    {"step", state.step},        {"path", from.folder().string()},
          {"stage", state.stage}, {"ranks", state.world_size}, {"note", note}};
}

nlohmann::json sample_record(const SampleRecord& record) {
  nlohmann::json json = {{"event", "sample"}, {"step", record.step}, {"text", record.text}};
  if (!record.error.empty()) {
    json["error"] = record.error;
  }
  return json;
}

nlohmann::json evaluation_record(const EvaluationRecord& record) {
  return {{"event", "eval"},
          {"step", record.step},
          {"loss", record.evaluation.loss},
          {"tokens", record.evaluation.tokens}};
}

nlohmann::json summary_record(const RunSummary& summary) {
  nlohmann::json json = {{"event", "summary"},
                         {"stage", summary.info.plan.stage},
                         {"steps", summary.steps},
                         {"skipped_steps", summary.skipped_steps},
                         {"stopped", summary.stopped},
                         {"excess_buffers", summary.excess_buffers},
                         {"tokens_per_s", summary.tokens_per_s},
                         {"ms", times_json(summary.ms)},
                         {"comm", communication_of_ranks(summary.communication)},
                         {"bytes_sent_per_step", summary.bytes_sent_per_step()},
                         {"memory", memory_of_ranks(summary.memory)}};
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

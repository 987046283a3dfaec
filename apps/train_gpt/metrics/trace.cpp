#include "apps/train_gpt/metrics/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <ranges>
#include <string>
#include <tuple>
#include <utility>

#include "apps/train_gpt/metrics/version.h"
#include "apps/train_gpt/setup/modelled_link.h"
#include "framework/comm/communicator.h"

namespace zerolab::app {
namespace {

using nlohmann::json;

/// The tracks of a rank, from above.
enum Track { kSteps, kCompute, kCommunication };
constexpr std::string_view kTrackNames[] = {"steps", "compute", "communication"};

bool is_collective(const Span& span) {
  return span.kind == SpanKind::kCommWait || span.kind == SpanKind::kCommTransfer;
}

/// Cuts from `spans`, which were taken after a step, what the step before began. With overlap_comm
/// its gathers may end in this step: collectives run in the order of their calls, and a step begins
/// with others. And a device may have ended its last work late.
std::vector<Span> take_late(std::vector<Span>& spans) {
  Clock::time_point begin = Clock::time_point::max();
  for (const Span& span : spans) {
    if (span.kind == SpanKind::kForward) {
      begin = std::min(begin, span.begin);
    }
  }
  std::vector<Span> late;
  std::vector<Span> own;
  bool gathers = true;
  for (Span& span : spans) {
    gathers = gathers && (!is_collective(span) || span.purpose == name_of(Purpose::kParameter));
    const bool is_late =
        is_collective(span) ? gathers : span.kind != SpanKind::kStep && span.begin < begin;
    (is_late ? late : own).push_back(std::move(span));
  }
  spans = std::move(own);
  return late;
}

/// Gathers the text of events and writes it in large pieces.
class Writer {
 public:
  Writer(RunFile& file, Clock::time_point origin) : file_(file), origin_(origin) {}

  void begin(const json& about) {
    text_ = fmt::format("{{\"displayTimeUnit\": \"ms\",\n\"otherData\": {},\n\"traceEvents\": [",
                        dump(about));
  }
  void event(const json& event) {
    constexpr size_t kPiece = size_t{1} << 20;
    text_ += (std::exchange(first_, false) ? "\n" : ",\n") + dump(event);
    if (text_.size() > kPiece) {
      file_.write(std::exchange(text_, {}));
    }
  }
  void end() { file_.write(text_ + "\n]}\n"); }

  /// As the format wants it: in microseconds.
  double time(Clock::time_point time) const { return microseconds(time - origin_); }
  static double microseconds(Clock::duration duration) {
    return std::chrono::duration<double, std::micro>(duration).count();
  }

 private:
  static std::string dump(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  RunFile& file_;
  const Clock::time_point origin_;
  std::string text_;
  bool first_ = true;
};

struct Slice {
  Track track;
  Clock::time_point begin;
  Clock::time_point end;
  std::string name;
  std::string_view category;
  json args = json::object();
};

std::string with_bucket(std::string name, int bucket) {
  return bucket < 0 ? name : fmt::format("{} bucket {}", name, bucket);
}

/// The slices of one track after the other, in order of time; what holds others comes before them.
std::vector<Slice> slices_of(const std::vector<Span>& spans) {
  std::vector<Slice> slices;
  // What lies within another is recorded before it.
  for (const Span& span : std::views::reverse(spans)) {
    if (is_collective(span) || span.kind == SpanKind::kRelease) {
      continue;
    }
    const bool exposed = span.kind == SpanKind::kCommExposed;
    Slice slice = {span.kind == SpanKind::kStep ? kSteps : kCompute, span.begin, span.end,
                   exposed ? with_bucket("exposed " + span.name, span.bucket) : span.name,
                   name_of(span.kind)};
    if (span.bucket >= 0) {
      slice.args["bucket"] = span.bucket;
    }
    slices.push_back(std::move(slice));
  }
  for (size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].kind != SpanKind::kCommWait) {
      continue;
    }
    const Span& wait = spans[i];
    const Span& transfer = spans[i + 1];
    Slice whole = {kCommunication, wait.begin, transfer.end,
                   with_bucket(fmt::format("{} {}", wait.name, wait.purpose), wait.bucket),
                   "collective"};
    whole.args = {{"op", wait.name},
                  {"purpose", wait.purpose},
                  {"bytes_sent", transfer.bytes},
                  {"wait_ms", wait.milliseconds()},
                  {"transfer_ms", transfer.milliseconds()}};
    if (wait.bucket >= 0) {
      whole.args["bucket"] = wait.bucket;
    }
    slices.push_back(std::move(whole));
    slices.push_back({kCommunication, wait.begin, wait.end, "wait", name_of(wait.kind)});
    slices.push_back(
        {kCommunication, transfer.begin, transfer.end, "transfer", name_of(transfer.kind)});
  }
  std::ranges::stable_sort(slices, [](const Slice& a, const Slice& b) {
    return std::tie(a.track, a.begin, b.end) < std::tie(b.track, b.begin, a.end);
  });
  return slices;
}

void write_slices(Writer& writer, int rank, const std::vector<Span>& spans) {
  for (const Slice& slice : slices_of(spans)) {
    writer.event({{"ph", "X"},
                  {"name", slice.name},
                  {"cat", slice.category},
                  {"pid", rank},
                  {"tid", slice.track},
                  {"ts", writer.time(slice.begin)},
                  {"dur", Writer::microseconds(slice.end - slice.begin)},
                  {"args", slice.args}});
  }
}

/// From where the gradients of a bucket were complete to the first collective that reduces them.
void write_arrows(Writer& writer, int rank, const std::vector<Span>& spans, int64_t& id) {
  std::map<int, std::deque<std::pair<const Span*, const Span*>>> reductions;  // wait and transfer
  for (size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].kind == SpanKind::kCommWait && spans[i].purpose == name_of(Purpose::kGradient)) {
      reductions[spans[i].bucket].emplace_back(&spans[i], &spans[i + 1]);
    }
  }
  for (const Span& release : spans) {
    if (release.kind != SpanKind::kRelease) {
      continue;
    }
    auto& next = reductions[release.bucket];
    while (!next.empty() && next.front().second->end < release.begin) {
      next.pop_front();
    }
    if (next.empty()) {
      continue;  // the run ended before it
    }
    json arrow = {{"ph", "s"},
                  {"name", "release"},
                  {"cat", name_of(release.kind)},
                  {"id", ++id},
                  {"pid", rank},
                  {"tid", kCompute},
                  {"ts", writer.time(release.begin)},
                  {"args", {{"bucket", release.bucket}}}};
    writer.event(arrow);
    arrow["ph"] = "f";
    arrow["bp"] = "e";
    arrow["tid"] = kCommunication;
    arrow["ts"] = writer.time(std::max(release.begin, next.front().first->begin));
    writer.event(arrow);
  }
}

/// A track a category, with a point where it changes; and one of the total.
void write_counters(Writer& writer, int rank, const std::vector<MemoryLedger::Sample>& memory) {
  CategoryBytes before = {};
  int64_t total = 0;
  const auto point = [&](std::string_view category, const MemoryLedger::Sample& sample,
                         int64_t bytes) {
    writer.event({{"ph", "C"},
                  {"name", fmt::format("memory {}", category)},
                  {"pid", rank},
                  {"ts", writer.time(sample.time)},
                  {"args", {{"bytes", bytes}}}});
  };
  for (const MemoryLedger::Sample& sample : memory) {
    const int64_t total_before = total;
    for (int i = 0; i < kNumCategories; ++i) {
      if (sample.current[i] != before[i]) {
        total += sample.current[i] - before[i];
        point(name_of(static_cast<Category>(i)), sample, sample.current[i]);
      }
    }
    if (total != total_before) {
      point("total", sample, total);
    }
    before = sample.current;
  }
}

void write_names(Writer& writer, int rank, bool modelled) {
  const auto name = [&](std::string_view what, int track, const json& args) {
    writer.event({{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", track}, {"args", args}});
  };
  name("process_name", 0, {{"name", fmt::format("rank {}", rank)}});
  name("process_sort_index", 0, {{"sort_index", rank}});
  for (const Track track : {kSteps, kCompute, kCommunication}) {
    std::string text(kTrackNames[track]);
    text += track == kCommunication && modelled ? " (modelled link)" : "";
    name("thread_name", track, {{"name", text}});
    name("thread_sort_index", track, {{"sort_index", track}});
  }
}

}  // namespace

Trace::Trace(const RunConfig& config)
    : about_({{"version", kVersion},
              {"run", config.run.name},
              {"modelled_link", modelled_link_json(config.comm)}}),
      first_step_(config.log.trace_first_step),
      last_step_(config.log.trace ? first_step_ + config.log.trace_steps - 1 : 0),
      ranks_(config.launch.ranks) {}

void Trace::add(int rank, int64_t step, const std::vector<Span>& spans,
                const MemoryLedger& ledger) {
  Rank& own = ranks_[rank];
  if (own.complete || (!covers(step) && !covers(step - 1))) {
    return;
  }
  own.complete = !covers(step);
  std::vector<Span> of_step = spans;
  const std::vector<Span> late = take_late(of_step);
  if (!own.spans.empty()) {
    own.spans.insert(own.spans.end(), late.begin(), late.end());
  }
  if (covers(step)) {
    own.spans.insert(own.spans.end(), of_step.begin(), of_step.end());
    const Clock::time_point known =
        own.memory.empty() ? Clock::time_point::min() : own.memory.back().time;
    std::ranges::copy_if(ledger.timeline(), std::back_inserter(own.memory),
                         [&](const auto& sample) { return sample.time > known; });
  }
}

void Trace::write(RunFile& file) const {
  Writer writer(file, origin_);
  writer.begin(about_);
  int64_t arrows = 0;
  for (size_t index = 0; index < ranks_.size(); ++index) {
    const int rank = static_cast<int>(index);
    write_names(writer, rank, !about_["modelled_link"].is_null());
    write_slices(writer, rank, ranks_[index].spans);
    write_arrows(writer, rank, ranks_[index].spans, arrows);
    write_counters(writer, rank, ranks_[index].memory);
  }
  writer.end();
}

}  // namespace zerolab::app

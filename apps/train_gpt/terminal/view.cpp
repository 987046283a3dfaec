#include "apps/train_gpt/terminal/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "apps/train_gpt/text/display_width.h"
#include "apps/train_gpt/text/format.h"

namespace zerolab::app {
namespace {

constexpr int kLeastColumns = 40;
constexpr int kWideColumns = 60;
constexpr size_t kShownRanks = 4;

/// What a part of a bar is drawn with: its letter, or a block of its colour (SGR).
struct Fill {
  char letter = ' ';
  int color = 0;
};
constexpr Fill kProgress = {'=', 32};

/// The kinds of memory that a bar shows.
struct Kind {
  std::string_view name;
  Fill fill;
};
constexpr Kind kKinds[] = {{"parameters", {'P', 34}},
                           {"gradients", {'G', 33}},
                           {"optimizer", {'O', 35}},
                           {"activations", {'A', 32}},
                           {"rest", {'R', 90}}};

size_t kind_of(Category category) {
  switch (category) {
    case Category::kParameters:
      return 0;
    case Category::kGradients:
    case Category::kGradientBuckets:
      return 1;
    case Category::kMasterWeights:
    case Category::kOptimizerState:
      return 2;
    case Category::kActivations:
    case Category::kLogits:
      return 3;
    default:
      return 4;
  }
}

std::string cells(const Fill& fill, int count, const Terminal& terminal) {
  if (!terminal.color || count == 0) {
    return std::string(count, fill.letter);
  }
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += terminal.unicode ? "█" : std::string(1, fill.letter);
  }
  return fmt::format("\x1b[{}m{}\x1b[0m", fill.color, text);
}

/// "[PPPGG  ]", `width` wide; each part is a share of the whole, which is 1. Empty where there is
/// too little room.
std::string bar(const std::vector<std::pair<Fill, double>>& parts, int width,
                const Terminal& terminal) {
  constexpr int kLeastCells = 4;
  const int room = width - 2;
  if (room < kLeastCells) {
    return "";
  }
  std::string text = "[";
  double sum = 0.0;
  int filled = 0;
  for (const auto& [fill, part] : parts) {
    sum += part;
    const int end = static_cast<int>(std::lround(std::clamp(sum, 0.0, 1.0) * room));
    text += cells(fill, end - filled, terminal);
    filled = end;
  }
  return text + std::string(room - filled, ' ') + "]";
}

/// Those of `parts` that fit in a line, in order; empty ones are left out.
std::string fitting(const std::vector<std::string>& parts, const Terminal& terminal) {
  // The terminal's last column stays free: some terminals wrap a full line.
  int room = terminal.columns - 1;
  std::string line;
  for (const std::string& part : parts) {
    const std::string separated = (line.empty() ? "" : "  ") + part;
    if (!part.empty() && display_width(separated) <= room) {
      line += separated;
      room -= display_width(separated);
    }
  }
  return line;
}

/// Columns that `parts` leave for one more in their line.
int room_beside(const std::vector<std::string>& parts, const Terminal& terminal) {
  int room = terminal.columns - 1;
  for (const std::string& part : parts) {
    room -= part.empty() ? 0 : display_width(part) + 2;
  }
  return room;
}

std::string title_line(const RunConfig& config, int stage, const Terminal& terminal) {
  std::string name = config.run.name;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, '?');
  const int64_t ranks = config.launch.ranks;
  return fitting(
      {name, std::string(zero::name_of_stage(stage)),
       fmt::format("{} {}", ranks, ranks == 1 ? "rank" : "ranks"),
       fmt::format("k = {}", config.train.gradient_accumulation_steps), config.train.precision},
      terminal);
}

std::string count_of(const RunConfig& config, int64_t step) {
  const std::string steps = fmt::format("{}", config.run.steps);
  return fmt::format("step {:>{}}/{}", step, steps.size(), steps);
}

std::string time_left(const ViewedStep& step) {
  return format_duration(step.seconds_left) + " left";
}

std::string progress_line(const RunConfig& config, const ViewedStep& step,
                          const Terminal& terminal) {
  const std::string count = count_of(config, step.step);
  const std::string left = time_left(step);
  const double done = static_cast<double>(step.step) / static_cast<double>(config.run.steps);
  return fitting(
      {count, bar({{kProgress, done}}, room_beside({count, left}, terminal), terminal), left},
      terminal);
}

std::string loss_line(double loss, const History& losses, const Terminal& terminal) {
  const std::string text = fmt::format("loss {:.4f}", loss);
  return fitting(
      {text, sparkline(losses.points(), room_beside({text}, terminal), terminal.unicode)},
      terminal);
}

/// What a full memory bar stands for: the limit, unless no rank comes near it.
struct MemoryScale {
  int64_t largest = 0;  ///< peak of a rank
  int64_t full = 1;

  MemoryScale(const std::vector<MemoryLedger::Snapshot>& ranks, int64_t limit) {
    for (const MemoryLedger::Snapshot& rank : ranks) {
      largest = std::max(largest, rank.total_peak);
    }
    full = std::max<int64_t>({largest, largest >= limit / 4 ? limit : 0, 1});
  }
};

std::string legend_line(const MemoryScale& scale, const Terminal& terminal) {
  const bool wide = terminal.columns >= kWideColumns;
  std::string legend;
  for (const Kind& kind : kKinds) {
    legend += fmt::format("{}{}{}{}", legend.empty() ? "" : " ", cells(kind.fill, 1, terminal),
                          terminal.color && terminal.unicode ? " " : "=",
                          kind.name.substr(0, wide ? kind.name.size() : 5));
  }
  return fitting({legend, fmt::format("of {}", format_bytes(scale.full))}, terminal);
}

/// What the rank held when it held most, by kind.
std::string rank_line(size_t rank, const MemoryLedger::Snapshot& memory, const MemoryScale& scale,
                      const Terminal& terminal) {
  std::vector<std::pair<Fill, double>> parts;
  for (const Kind& kind : kKinds) {
    parts.emplace_back(kind.fill, 0.0);
  }
  for (int i = 0; i < kNumCategories; ++i) {
    parts[kind_of(static_cast<Category>(i))].second +=
        static_cast<double>(memory.at_total_peak[i]) / static_cast<double>(scale.full);
  }
  const std::string name = fmt::format("rank {}", rank);
  const std::string now =
      terminal.columns < kWideColumns ? "" : fmt::format("now {:>10}", format_bytes(memory.total));
  const std::string peak = fmt::format("peak {:>10}", format_bytes(memory.total_peak));
  return fitting({name, bar(parts, room_beside({name, now, peak}, terminal), terminal), now, peak},
                 terminal);
}

std::string speed_line(const ViewedStep& step, const Terminal& terminal) {
  const double exposed = step.ms > 0 ? step.exposed_ms / step.ms : 0.0;
  return fitting(
      {fmt::format("{} tok/s", format_count(step.tokens_per_s)),
       fmt::format("exposed comm {:.0f} %", 100 * exposed), fmt::format("{:.1f} ms/step", step.ms)},
      terminal);
}

}  // namespace

std::string step_line(const RunConfig& config, const ViewedStep& step) {
  int64_t bytes = 0;
  for (const MemoryLedger::Snapshot& memory : step.memory) {
    bytes = std::max(bytes, memory.total_peak);
  }
  return fmt::format("{}  loss {:.4f}  {} tok/s  {}/rank  {}", count_of(config, step.step),
                     step.loss, format_count(step.tokens_per_s), format_bytes(bytes),
                     time_left(step));
}

std::vector<std::string> view_lines(const RunConfig& config, const ViewedStep& step,
                                    const History& losses, const Terminal& terminal) {
  const MemoryScale scale(step.memory, config.launch.memory_limit);
  std::vector<std::string> lines = {
      title_line(config, step.stage, terminal), progress_line(config, step, terminal),
      loss_line(step.loss, losses, terminal), legend_line(scale, terminal)};
  const size_t shown = std::min(step.memory.size(), kShownRanks);
  for (size_t rank = 0; rank < shown; ++rank) {
    lines.push_back(rank_line(rank, step.memory[rank], scale, terminal));
  }
  if (shown < step.memory.size()) {
    lines.push_back(fmt::format("{} and {} more, max {}", terminal.unicode ? "…" : "...",
                                step.memory.size() - shown, format_bytes(scale.largest)));
  }
  lines.push_back(speed_line(step, terminal));
  if (terminal.columns < kLeastColumns || static_cast<int>(lines.size()) >= terminal.rows) {
    const int room = std::max(terminal.columns - 1, 1);
    return {step_line(config, step).substr(0, room)};
  }
  return lines;
}

}  // namespace zerolab::app

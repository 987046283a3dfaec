#include "apps/train_gpt/commands/prepare_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <system_error>

#include "apps/train_gpt/terminal/block.h"
#include "apps/train_gpt/terminal/terminal.h"
#include "apps/train_gpt/text/format.h"
#include "data/parallel_encoder.h"
#include "data/shard_writer.h"
#include "framework/core/error.h"

namespace zerolab::app {
namespace {

using PrepareClock = std::chrono::steady_clock;

constexpr size_t kBlockBytes = size_t{4} << 20;  // a job of a thread

/// A file or standard input, read from a byte on.
class PrepareInput {
 public:
  PrepareInput(const std::string& path, uint64_t offset)
      : path_(path),
        file_(path == kStandardInput ? stdin : std::fopen(path.c_str(), "rb"), std::fclose) {
    require_done(file_ != nullptr &&
                 (offset == 0 || ::fseeko(file_.get(), static_cast<off_t>(offset), SEEK_SET) == 0));
  }

  /// Lengthens `text` to `size` bytes; to less only at the end of the input.
  void read_up_to(size_t size, std::string& text) {
    const size_t before = text.size();
    text.resize(size);
    text.resize(before + std::fread(text.data() + before, 1, size - before, file_.get()));
    require_done(std::ferror(file_.get()) == 0);
  }

 private:
  void require_done(bool done) const {
    require(done, "prepare", "cannot read '{}'; got: {}", path_,
            std::generic_category().message(errno));
  }

  const std::string path_;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

/// A line on a terminal, rewritten now and then; elsewhere nothing.
class PrepareProgress {
 public:
  /// `total`: bytes of all inputs; 0: not known.
  PrepareProgress(int64_t total, int64_t done) : total_(total), begun_at_(done) {}

  void update(int64_t done, int64_t tokens) {
    const std::chrono::duration<double> time = PrepareClock::now() - begin_;
    if (!terminal_.live || time.count() < next_s_) {
      return;
    }
    next_s_ = time.count() + 0.1;
    const double rate = static_cast<double>(done - begun_at_) / time.count();
    std::string line = fmt::format("{} tokens, {} ", format_count(static_cast<double>(tokens)),
                                   format_bytes(done));
    if (total_ > 0) {
      line += fmt::format("of {}, {} left ", format_bytes(total_),
                          format_duration(static_cast<double>(total_ - done) / rate));
    }
    line += fmt::format("({:.1f} MB/s)", rate / 1e6);
    terminal_.measure(stdout);
    line.resize(std::min(line.size(), static_cast<size_t>(terminal_.columns - 1)));
    fmt::print("{}", block_.draw("", {line}, terminal_.columns));
    std::fflush(stdout);
  }

 private:
  const int64_t total_;
  const int64_t begun_at_;
  const PrepareClock::time_point begin_ = PrepareClock::now();
  double next_s_ = 0;
  Terminal terminal_ = Terminal::of(stdout);
  TerminalBlock block_;
};

/// Texts to shards, from where `state` says on.
class Preparation {
 public:
  Preparation(const std::filesystem::path& folder, const data::Tokenizer& tokenizer, int threads,
              PrepareState& state)
      : state_file_(folder / kPrepareStateFile),
        state_(state),
        resumed_(state.next),
        writer_(folder, state.shard_tokens, state.shards),
        encoder_(tokenizer, threads,
                 [this](const data::TextPosition& begin, std::span<const int32_t> tokens) {
                   take(begin, tokens);
                 }) {}

  void run(const std::atomic<bool>& stop) {
    int64_t done = static_cast<int64_t>(resumed_.offset);
    int64_t total = 0;
    for (size_t i = 0; i < state_.inputs.size(); ++i) {
      done += i < resumed_.text ? state_.inputs[i].bytes : 0;
      total += state_.inputs[i].bytes;
    }
    PrepareProgress progress(total, done);
    std::string block;
    for (uint64_t text = resumed_.text; text < state_.inputs.size(); ++text) {
      uint64_t offset = text == resumed_.text ? resumed_.offset : 0;
      PrepareInput input(state_.inputs[text].path, offset);
      block.clear();
      for (bool last = false; !last;) {
        if (stop) {
          return;
        }
        const size_t wanted = block.size() + kBlockBytes;
        input.read_up_to(wanted, block);
        last = block.size() < wanted;
        const size_t pushed = block.size() - encoder_.push(text, offset, block, last);
        block.erase(0, pushed);
        offset += pushed;
        done += static_cast<int64_t>(pushed);
        progress.update(done, state_.tokens + writer_.num_tokens());
      }
    }
    encoder_.finish();
    require(state_.tokens + writer_.num_tokens() > 0, "prepare",
            "the inputs are empty; got no token, expected at least one");
    state_.complete = true;
    if (writer_.num_tokens() > 0) {
      finish_shard({.text = state_.inputs.size()});
    } else {
      state_.save(state_file_);
    }
  }

 private:
  void take(const data::TextPosition& begin, std::span<const int32_t> tokens) {
    data::TextPosition at = begin;
    if (at.text == resumed_.text && at.offset == resumed_.offset && at.skip < resumed_.skip) {
      const size_t there = std::min<uint64_t>(resumed_.skip - at.skip, tokens.size());
      tokens = tokens.subspan(there);
      at.skip += there;
    }
    while (!tokens.empty()) {
      const size_t written = writer_.append(tokens);
      tokens = tokens.subspan(written);
      at.skip += written;
      if (writer_.is_full()) {
        finish_shard(at);
      }
    }
  }

  void finish_shard(const data::TextPosition& next) {
    state_.tokens += writer_.num_tokens();
    state_.next = next;
    writer_.finish_shard();
    state_.shards = writer_.next();
    state_.save(state_file_);
  }

  const std::filesystem::path state_file_;
  PrepareState& state_;
  const data::TextPosition resumed_;
  data::ShardWriter writer_;
  data::ParallelEncoder encoder_;
};

}  // namespace

void prepare_shards(const std::filesystem::path& folder, const data::Tokenizer& tokenizer,
                    int threads, PrepareState& state, const std::atomic<bool>& stop) {
  Preparation(folder, tokenizer, threads, state).run(stop);
}

}  // namespace zerolab::app

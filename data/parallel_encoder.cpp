#include "data/parallel_encoder.h"

#include <utility>

namespace zerolab::data {

ParallelEncoder::ParallelEncoder(const Tokenizer& tokenizer, int threads, Take take)
    : tokenizer_(tokenizer), threads_(static_cast<size_t>(threads)), take_(std::move(take)) {}

size_t ParallelEncoder::push(uint64_t text, uint64_t offset, std::string_view part, bool last) {
  const size_t cut = last ? part.size() : tokenizer_.last_cut(part);
  const bool ends = last || cut > 0;
  const std::string_view taken = ends ? part.substr(0, cut) : part;

  std::shared_ptr<TokenStream> stream = std::exchange(open_, nullptr);
  if (stream != nullptr) {
    if (!jobs_.empty()) {
      jobs_.back().tokens.wait();  // it is the one before this, on the same stream
    }
  } else {
    open_begin_ = {.text = text, .offset = offset};
    if (idle_.empty()) {
      stream = tokenizer_.stream();
    } else {
      stream = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  const bool begins_text = offset == 0 && text > 0;
  auto encode = [stream, ends, begins_text, end_of_text = tokenizer_.end_of_text(),
                 copy = std::string(taken)] {
    std::vector<int32_t> tokens;
    if (begins_text && end_of_text.has_value()) {
      tokens.push_back(*end_of_text);
    }
    stream->push(copy, tokens);
    if (ends) {
      stream->finish(tokens);
    }
    return tokens;
  };
  jobs_.push_back({.begin = open_begin_,
                   .stream = stream,
                   .ends = ends,
                   .tokens = std::async(std::launch::async, std::move(encode))});
  if (!ends) {
    open_ = std::move(stream);
  }
  if (jobs_.size() >= threads_) {
    take_oldest();
  }
  return part.size() - taken.size();
}

void ParallelEncoder::finish() {
  while (!jobs_.empty()) {
    take_oldest();
  }
}

void ParallelEncoder::take_oldest() {
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  const std::vector<int32_t> tokens = job.tokens.get();
  job.begin.skip = taken_;
  take_(job.begin, tokens);
  taken_ = job.ends ? 0 : taken_ + tokens.size();
  if (job.ends) {
    idle_.push_back(std::move(job.stream));
  }
}

}  // namespace zerolab::data

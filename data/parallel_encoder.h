#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "data/tokenizer.h"

namespace zerolab::data {

/// A place between tokens in a list of texts: `skip` tokens after those of text `text` before byte
/// `offset`, at which the text can be cut.
struct TextPosition {
  uint64_t text = 0;
  uint64_t offset = 0;
  uint64_t skip = 0;
};

/// Encodes texts in several threads, block by block. The tokens, and their order, are those of one
/// thread. Used by one thread; what a block's encoding throws comes out of `push` or `finish`.
class ParallelEncoder {
 public:
  /// Tokens in the order of the texts, and where the first of them stands.
  using Take = std::function<void(const TextPosition&, std::span<const int32_t>)>;

  /// The tokenizer must outlive it. `take` is called in the thread that calls `push` and `finish`.
  ParallelEncoder(const Tokenizer& tokenizer, int threads, Take take);

  /// The next part of a text, which begins at `offset` of it. Every text but the first begins with
  /// the tokenizer's end_of_text(), if it has one. `last` ends the text. Returns the bytes, at the
  /// part's end, that were not taken, since the part cannot be cut after them: the next part must
  /// begin with them. None where `last`.
  size_t push(uint64_t text, uint64_t offset, std::string_view part, bool last);

  /// Waits for what is being encoded.
  void finish();

 private:
  /// A part that ends where the text can be cut, or a part of such a one: `stream` goes on.
  struct Job {
    TextPosition begin;  // of the stream's first token
    std::shared_ptr<TokenStream> stream;
    bool ends = true;
    std::future<std::vector<int32_t>> tokens;
  };

  void take_oldest();

  const Tokenizer& tokenizer_;
  const size_t threads_;
  const Take take_;
  std::deque<Job> jobs_;
  std::vector<std::shared_ptr<TokenStream>> idle_;  // they know words already
  std::shared_ptr<TokenStream> open_;               // of a part that could not be cut
  TextPosition open_begin_;
  uint64_t taken_ = 0;  // tokens of the stream whose jobs are being taken
};

}  // namespace zerolab::data

#pragma once

#include <cstddef>
#include <string_view>

namespace zerolab::data {

/// How GPT-2 cuts a text into words before it merges bytes, the pattern
///
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///
/// of encoder.py in openai/gpt-2. It covers every text: each word begins where the last one ended.
/// Two rules go beyond it. Invalid UTF-8 counts as [^\s\p{L}\p{N}], byte by byte, so that any bytes
/// round-trip. A word ends after `kMaxWordBytes`, up to 3 bytes less where a character would be
/// cut, so that memory and time are bounded.
constexpr size_t kMaxWordBytes = size_t{1} << 20;

/// Text this far after a word has no influence on where the word ends.
constexpr size_t kWordLookahead = 8;

/// Where the word that begins at text[begin] ends; begin < text.size().
size_t word_end(std::string_view text, size_t begin);

/// The last place where the text can be cut into two that have the same words as the whole: before
/// an ASCII white space that follows something else. 0 where there is none.
size_t last_word_cut(std::string_view text);

}  // namespace zerolab::data

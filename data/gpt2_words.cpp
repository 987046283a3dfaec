#include "data/gpt2_words.h"

#include <algorithm>
#include <array>

#include "data/unicode.h"
#include "data/utf8.h"

namespace zerolab::data {

namespace {

constexpr std::array<std::string_view, 7> kContractions = {"'s", "'t",  "'re", "'ve",
                                                           "'m", "'ll", "'d"};

}  // namespace

size_t word_end(std::string_view text, size_t begin) {
  static const CharClasses& classes = CharClasses::get();
  if (text[begin] == '\'') {
    for (const std::string_view contraction : kContractions) {
      if (text.substr(begin).starts_with(contraction)) {
        return begin + contraction.size();
      }
    }
  }

  Char c = char_at(text, begin);
  CharClass kind = classes[c.code_point];
  size_t end = begin + c.bytes;
  if (c.code_point == ' ' && end < text.size()) {  // the optional space before another class
    c = char_at(text, end);
    kind = classes[c.code_point];
    end += kind == CharClass::kSpace ? 0 : c.bytes;
  }
  size_t last = begin;  // where the run's last character begins
  while (end < text.size()) {
    c = char_at(text, end);
    if (classes[c.code_point] != kind) {
      break;
    }
    if (end + c.bytes > begin + kMaxWordBytes) {
      return end;
    }
    last = end;
    end += c.bytes;
  }
  // \s+(?!\S): the last white space before something else belongs to the next word, where it is not
  // alone.
  const bool gives_back = kind == CharClass::kSpace && end < text.size() && last > begin;
  return gives_back ? last : end;
}

size_t last_word_cut(std::string_view text) {
  const CharClasses& classes = CharClasses::get();
  // A word's only white space before something else is its first character, so none goes over such
  // a place, and the word before it ends there whatever follows.
  for (size_t at = text.size(); at-- > 1;) {
    if (static_cast<uint8_t>(text[at]) >= 0x80 ||
        classes[static_cast<uint8_t>(text[at])] != CharClass::kSpace) {
      continue;
    }
    size_t before = at - 1;  // of the character before it
    while (before > 0 && at - before < 4 && is_continuation(text[before])) {
      --before;
    }
    const Char c = char_at(text, before);
    const bool whole = before + c.bytes == at;  // else there are stray bytes before `at`
    if (!whole || classes[c.code_point] != CharClass::kSpace) {
      return at;
    }
  }
  return 0;
}

}  // namespace zerolab::data

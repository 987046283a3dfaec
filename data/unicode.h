#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zerolab::data {

/// Unicode's general categories L and N, its property White_Space, and all the rest.
enum class CharClass : uint8_t { kOther, kLetter, kNumber, kSpace };

constexpr char32_t kInvalidChar = 0xFFFFFFFF;

/// A character of UTF-8 text. A byte that begins no valid sequence (overlong, a surrogate, above
/// U+10FFFF, cut off) is a character of its own, `kInvalidChar`.
struct Char {
  char32_t code_point = kInvalidChar;
  size_t bytes = 1;
};

/// The character at text[at]; at < text.size().
Char char_at(std::string_view text, size_t at);

/// Appends a code point's UTF-8.
void append_utf8(std::string& text, char32_t code_point);

/// The class of every code point, as PCRE2's Unicode tables have it. An invalid byte is `kOther`,
/// as is U+FFFD, the sign that decoders put in its place.
class CharClasses {
 public:
  /// One for the process; made at the first call.
  static const CharClasses& get();

  CharClass operator[](char32_t code_point) const {
    return code_point < classes_.size() ? classes_[code_point] : CharClass::kOther;
  }

 private:
  CharClasses();
  std::vector<CharClass> classes_;
};

}  // namespace zerolab::data

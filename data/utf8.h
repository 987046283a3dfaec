#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace zerolab::data {

constexpr char32_t kCodePoints = 0x110000;  ///< U+0000 to U+10FFFF
constexpr char32_t kInvalidChar = 0xFFFFFFFF;

/// A character of UTF-8 text. A byte that begins no valid sequence (overlong, a surrogate, above
/// U+10FFFF, cut off) is a character of its own, `kInvalidChar`.
struct Char {
  char32_t code_point = kInvalidChar;
  size_t bytes = 1;
};

/// The character at text[at]; at < text.size().
Char char_at(std::string_view text, size_t at);

/// Whether `byte` is a character's second or later byte.
constexpr bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

/// Whether UTF-16 uses the code point for half of a character: no character of UTF-8.
constexpr bool is_surrogate(char32_t code_point) {
  return code_point >= 0xD800 && code_point <= 0xDFFF;
}

/// Appends a code point's UTF-8.
void append_utf8(std::string& text, char32_t code_point);

/// Joins text that comes in parts, such as tokens, which may end within a character. It holds back
/// the character that has begun; bytes that are no UTF-8 pass through.
class Utf8Joiner {
 public:
  /// Returns the characters that are whole by now.
  std::string push(std::string_view part);
  /// The bytes that were held back, at the text's end.
  std::string rest() { return std::exchange(held_, {}); }

 private:
  std::string held_;
};

}  // namespace zerolab::data

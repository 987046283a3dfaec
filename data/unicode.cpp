#include "data/unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <memory>

#include "framework/core/error.h"

namespace zerolab::data {

namespace {

constexpr char32_t kEnd = 0x110000;
constexpr char32_t kFirstSurrogate = 0xD800;
constexpr char32_t kLastSurrogate = 0xDFFF;

/// White_Space; PCRE2's \s has U+180E besides, which lost the property in Unicode 6.3.
constexpr std::array<std::array<char32_t, 2>, 10> kSpaces = {{{0x09, 0x0D},
                                                              {0x20, 0x20},
                                                              {0x85, 0x85},
                                                              {0xA0, 0xA0},
                                                              {0x1680, 0x1680},
                                                              {0x2000, 0x200A},
                                                              {0x2028, 0x2029},
                                                              {0x202F, 0x202F},
                                                              {0x205F, 0x205F},
                                                              {0x3000, 0x3000}}};

/// Calls `found` with [begin, end) of every match of `pattern` in valid UTF-8.
template <typename Found>
void for_each_match(const char* pattern, std::string_view text, Found found) {
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  const std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &error, &error_offset, nullptr),
      pcre2_code_free);
  require(code != nullptr, "unicode",
          "PCRE2 refuses {}; got error {}, expected its Unicode support", pattern, error);
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
  for (PCRE2_SIZE at = 0;
       pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                   PCRE2_NO_UTF_CHECK, match.get(), nullptr) > 0;
       at = range[1]) {
    found(range[0], range[1]);
  }
}

bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

}  // namespace

Char char_at(std::string_view text, size_t at) {
  const auto lead = static_cast<uint8_t>(text[at]);
  if (lead < 0x80) {
    return {lead, 1};
  }
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() - at < bytes) {
    return {};
  }
  char32_t code_point = lead & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if (!is_continuation(text[at + i])) {
      return {};
    }
    code_point = code_point << 6 | (static_cast<uint8_t>(text[at + i]) & 0x3F);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool valid = code_point >= kLeast[bytes] && code_point < kEnd &&
                     (code_point < kFirstSurrogate || code_point > kLastSurrogate);
  return valid ? Char{code_point, bytes} : Char{};
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto put_rest = [&](int shift) { put(0x80 | (code_point >> shift & 0x3F)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put_rest(0);
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put_rest(6);
    put_rest(0);
  } else {
    put(0xF0 | code_point >> 18);
    put_rest(12);
    put_rest(6);
    put_rest(0);
  }
}

const CharClasses& CharClasses::get() {
  static const CharClasses classes;
  return classes;
}

CharClasses::CharClasses() : classes_(kEnd, CharClass::kOther) {
  std::string all;
  for (char32_t code_point = 0; code_point < kEnd; ++code_point) {
    if (code_point < kFirstSurrogate || code_point > kLastSurrogate) {
      append_utf8(all, code_point);
    }
  }
  const auto set = [&](const char* pattern, CharClass value) {
    for_each_match(pattern, all, [&](size_t begin, size_t end) {
      for (Char c; begin < end; begin += c.bytes) {
        c = char_at(all, begin);
        classes_[c.code_point] = value;
      }
    });
  };
  set("\\p{L}+", CharClass::kLetter);
  set("\\p{N}+", CharClass::kNumber);
  for (const auto& [first, last] : kSpaces) {
    std::fill(classes_.begin() + first, classes_.begin() + last + 1, CharClass::kSpace);
  }
}

}  // namespace zerolab::data

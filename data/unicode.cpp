#include "data/unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <memory>

#include "data/utf8.h"
#include "framework/core/error.h"

namespace zerolab::data {

namespace {

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

}  // namespace

const CharClasses& CharClasses::get() {
  static const CharClasses classes;
  return classes;
}

CharClasses::CharClasses() : classes_(kCodePoints, CharClass::kOther) {
  std::string all;
  for (char32_t code_point = 0; code_point < kCodePoints; ++code_point) {
    if (!is_surrogate(code_point)) {
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

#include "data/utf8.h"

#include <algorithm>
#include <array>

namespace zerolab::data {
namespace {

/// Bytes of the character that `lead` begins; 0 where it begins none.
size_t sequence_length(uint8_t lead) {
  if (lead < 0x80) {
    return 1;
  }
  if (lead < 0xC2 || lead > 0xF4) {  // 0xC0 and 0xC1 begin overlong sequences only
    return 0;
  }
  return lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
}

/// Bytes at the end of `text` that begin a character and do not end it.
size_t begun_bytes(std::string_view text) {
  for (size_t count = 1; count <= std::min<size_t>(3, text.size()); ++count) {
    const char byte = text[text.size() - count];
    if (!is_continuation(byte)) {
      return sequence_length(static_cast<uint8_t>(byte)) > count ? count : 0;
    }
  }
  return 0;
}

}  // namespace

Char char_at(std::string_view text, size_t at) {
  const auto lead = static_cast<uint8_t>(text[at]);
  const size_t bytes = sequence_length(lead);
  if (bytes == 1) {
    return {lead, 1};
  }
  if (bytes == 0 || text.size() - at < bytes) {
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
  const bool valid =
      code_point >= kLeast[bytes] && code_point < kCodePoints && !is_surrogate(code_point);
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

std::string Utf8Joiner::push(std::string_view part) {
  held_ += part;
  const size_t whole = held_.size() - begun_bytes(held_);
  std::string text = held_.substr(0, whole);
  held_.erase(0, whole);
  return text;
}

}  // namespace zerolab::data

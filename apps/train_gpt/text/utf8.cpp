#include "apps/train_gpt/text/utf8.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace zerolab::app {
namespace {

/// Bytes at the end of `text` that begin a character and do not end it.
size_t begun_bytes(std::string_view text) {
  for (size_t count = 1; count <= std::min<size_t>(3, text.size()); ++count) {
    const auto byte = static_cast<uint8_t>(text[text.size() - count]);
    const int length = std::countl_one(byte);  // of a character, told by its first byte
    if (length != 1) {
      return length <= 4 && static_cast<size_t>(length) > count ? count : 0;
    }
  }
  return 0;
}

}  // namespace

std::string Utf8Parts::push(std::string_view part) {
  held_ += part;
  const size_t whole = held_.size() - begun_bytes(held_);
  std::string text = held_.substr(0, whole);
  held_.erase(0, whole);
  return text;
}

}  // namespace zerolab::app

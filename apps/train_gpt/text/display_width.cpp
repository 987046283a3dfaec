#include "apps/train_gpt/text/display_width.h"

#include <utf8proc.h>

#include <algorithm>

#include "data/utf8.h"

namespace zerolab::app {

int display_width(std::string_view text) {
  int width = 0;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '\x1b') {  // the only codes that we print within a line end with m
      at = std::min(text.find('m', at), text.size() - 1) + 1;
      continue;
    }
    const data::Char c = data::char_at(text, at);
    width += c.code_point == data::kInvalidChar
                 ? 1
                 : utf8proc_charwidth(static_cast<utf8proc_int32_t>(c.code_point));
    at += c.bytes;
  }
  return width;
}

}  // namespace zerolab::app

#include "apps/train_gpt/terminal/terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace zerolab::app {
namespace {

bool locale_is_utf8() {
  // A locale of our own: the program's stays "C", in which numbers are written the same everywhere.
  const locale_t locale = newlocale(LC_CTYPE_MASK, "", nullptr);
  const bool utf8 =
      locale != nullptr && std::string_view(nl_langinfo_l(CODESET, locale)) == "UTF-8";
  if (locale != nullptr) {
    freelocale(locale);
  }
  return utf8;
}

}  // namespace

Terminal Terminal::of(std::FILE* out) {
  Terminal terminal;
  const char* term = std::getenv("TERM");
  terminal.live = isatty(fileno(out)) == 1 && term != nullptr && std::string_view(term) != "dumb";
  const char* no_color = std::getenv("NO_COLOR");
  terminal.color = terminal.live && (no_color == nullptr || *no_color == '\0');
  terminal.unicode = terminal.live && locale_is_utf8();
  terminal.measure(out);
  return terminal;
}

void Terminal::measure(std::FILE* out) {
  winsize size = {};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    columns = size.ws_col;
    rows = size.ws_row > 0 ? size.ws_row : rows;
  }
}

}  // namespace zerolab::app

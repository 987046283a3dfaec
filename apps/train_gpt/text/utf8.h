#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace zerolab::app {

/// Text that comes in parts which may end within a character: tokens of bytes. Holds back the begun
/// character; what is no UTF-8 passes as it is.
class Utf8Parts {
 public:
  /// The characters that are whole by now.
  std::string push(std::string_view part);
  /// The bytes that were held back, at the text's end.
  std::string rest() { return std::exchange(held_, {}); }

 private:
  std::string held_;
};

}  // namespace zerolab::app

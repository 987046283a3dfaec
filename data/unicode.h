#pragma once

#include <cstdint>
#include <vector>

namespace zerolab::data {

/// Unicode's general categories L and N, its property White_Space, and all the rest.
enum class CharClass : uint8_t { kOther, kLetter, kNumber, kSpace };

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

#include "zero/options.h"

#include <string>
#include <tuple>
#include <type_traits>

#include "framework/core/error.h"
#include "framework/core/hash.h"

namespace zerolab::zero {
namespace {

std::string text_of(std::optional<DType> dtype) {
  return dtype.has_value() ? std::string(name_of(*dtype)) : "auto";
}

template <typename Field>
std::string text_of(Field field) {
  if constexpr (std::is_enum_v<Field>) {
    return fmt::format("{}", static_cast<int>(field));
  } else {
    return fmt::format("{}", field);
  }
}

template <typename Options>
uint64_t hash_of_fields(const Options& options) {
  std::string text;
  std::apply([&](const auto&... field) { ((text += text_of(field) + " "), ...); },
             Options::fields_of(options));
  return hash_of(text);
}

}  // namespace

uint64_t EngineOptions::hash() const { return hash_of_fields(*this); }

uint64_t DebugOptions::hash() const { return hash_of_fields(*this); }

}  // namespace zerolab::zero

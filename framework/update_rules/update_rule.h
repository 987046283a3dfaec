#pragma once

#include <cstddef>
#include <utility>
#include <variant>

#include "framework/update_rules/adamw.h"
#include "framework/update_rules/lion.h"
#include "framework/update_rules/sgd.h"

namespace zerolab {

/// How an optimizer updates one element, by itself: one of the rules of this folder. A new rule is
/// a header and a word in this list; every backend compiles its kernel from it.
///
/// A rule has
///   kName    the name users choose it by; rules may share it, if `is_for` tells which one is meant
///   kStates  the names of its state, one fp32 number an element each, zero at the start
///   is_for(settings)                      optional: whether these settings mean this rule
///   Rule(settings)                        scalars are computed in fp64 and rounded to fp32 once
///   operator()(g, parameter, states)      updates parameter and states in place
/// The operator is a template: a number is a float, or a vector of floats. It only has arithmetic.h
/// and + - * / (whose results do not depend on the device), each in the written order.
struct UpdateRule {
  using Rules = std::variant<AdamW, Sgd, MomentumSgd, Lion>;
  Rules rule;
};

/// Calls `body.operator()<Rule>()` for each rule of the list.
template <typename Body>
void for_each_rule(Body&& body) {
  [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
    (body.template operator()<std::variant_alternative_t<kIndex, UpdateRule::Rules>>(), ...);
  }
  (std::make_index_sequence<std::variant_size_v<UpdateRule::Rules>>());
}

template <typename Rule>
inline constexpr size_t kNumStates = Rule::kStates.size();
/// Length of an array for an element's states: some compilers have no empty ones.
template <typename Rule>
inline constexpr size_t kStateRoom = kNumStates<Rule> == 0 ? 1 : kNumStates<Rule>;

}  // namespace zerolab

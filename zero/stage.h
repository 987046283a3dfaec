#pragma once

#include <array>
#include <string_view>

namespace zerolab::zero {

/// The stages there are, and their names: 0 is DDP, which partitions nothing.
inline constexpr std::array kStages = {0, 1, 2};
inline constexpr int kLastStage = kStages.back();

constexpr std::string_view name_of_stage(int stage) {
  return stage == 0 ? "DDP" : stage == 1 ? "ZeRO-1" : "ZeRO-2";
}

}  // namespace zerolab::zero

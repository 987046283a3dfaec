#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/memory/ledger.h"
#include "zero/layout.h"
#include "zero/stage_plan.h"

namespace zerolab::zero {

/// Bytes of one category of state on one rank: what the formula of the papers says, and what
/// padding adds.
struct StateBytes {
  Category category;
  double formula = 0.0;  ///< of Ψ and N; not always whole
  int64_t bytes = 0;     ///< formula + padding: what the ledger must show, to the byte
  double padding() const { return static_cast<double>(bytes) - formula; }
};

/// Parameters, gradients, optimizer state and master weights between steps. With
/// `states_per_element` = 2 (AdamW), in fp32 training: 16Ψ for DDP, 8Ψ + 8Ψ/N for ZeRO-1, 4Ψ +
/// 12Ψ/N for ZeRO-2; in 16-bit training with k = 1: 16Ψ, 4Ψ + 12Ψ/N, 2Ψ + 14Ψ/N.
std::vector<StateBytes> state_bytes(const Layout& layout, const StagePlan& plan,
                                    int states_per_element);

/// Bytes that one rank sends in one step.
struct CommunicationBytes {
  double formula = 0.0;   ///< elements of the papers × bytes of their dtype
  int64_t gradients = 0;  ///< and `parameters`: what the ledger shows, with padding, to the byte
  int64_t parameters = 0;
};
CommunicationBytes communication_bytes(const Layout& layout, const StagePlan& plan, int rank);

}  // namespace zerolab::zero

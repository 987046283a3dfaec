#pragma once

#include <vector>

#include "framework/tensor/rank_context.h"
#include "zero/gradient_storage.h"
#include "zero/layout.h"

namespace zerolab::zero {

// `DebugOptions::poison`: what means nothing becomes NaN, so that a wrong read shows in the loss.

/// Consumed gradients, and what their reduction left without meaning.
void poison_gradients(RankContext& context, const GradientStorage& gradients,
                      const std::vector<Segment>& kept);

/// The other ranks' slices of the flat parameters, before they are gathered.
void poison_stale_parameters(RankContext& context, const Layout& layout, const Tensor& parameters);

}  // namespace zerolab::zero

#pragma once

#include <cstdint>

#include "data/token_dataset.h"
#include "models/gpt.h"

namespace zerolab::app {

/// The mean loss, in nats, over all tokens of `text`, each predicted once from those before it in
/// its window. Windows lie side by side: the w-th predicts tokens [w · T, w · T + T), where T is
/// block_size, from the T tokens one place before; the last may be shorter, and `start` stands
/// before the first token. `batch_size` windows are computed together.
double mean_loss(const Gpt& model, const data::TokenView& text, int32_t start, int64_t batch_size);

}  // namespace zerolab::app

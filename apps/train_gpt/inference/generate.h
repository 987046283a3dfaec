#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "data/tokenizer.h"
#include "models/gpt.h"
#include "models/sampling.h"

namespace zerolab::app {

struct GenerateOptions {
  int64_t tokens = 256;
  SamplingOptions sampling;
  bool use_cache = true;
};

/// Continues `prompt` (an empty one: `start_token`) by `options.tokens` tokens. Hands the
/// text that they add to `out` as it comes, in whole UTF-8 characters; false from it ends all.
void generate(const Gpt& model, const data::Tokenizer& tokenizer, std::string_view prompt,
              const GenerateOptions& options, const std::function<bool(std::string_view)>& out);

}  // namespace zerolab::app

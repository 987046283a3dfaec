#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/train_gpt/config/config.h"

namespace zerolab::app {

/// A plan reads no data where `model.vocab_size` is set, and no initial weights. Inference is on
/// one rank and needs no data but the text that a char tokenizer is made from; what does not say
/// how to compute the model returns to its default.
enum class ConfigUse { kTrain, kPlan, kInference };

/// Reads `file`, applies the `section.key=value` overrides in order, and resolves. Each fault of
/// the file or an override is a `ConfigError` that gives place, key, what was got and what was
/// expected.
RunConfig load_config(const std::filesystem::path& file,
                      const std::vector<std::string>& overrides = {},
                      ConfigUse use = ConfigUse::kTrain);

/// Derives what is "auto" from the rest (batch sizes, loss scale, threads and memory per rank),
/// finds the input files, and refuses sections that contradict each other. Only
/// `zero.reduce_bucket_size` stays 0, since it depends on the model's size. Resolving twice changes
/// nothing. Relative input paths are looked for in the folder of `file`, then in the working
/// directory.
void resolve(RunConfig& config, const std::filesystem::path& file = {},
             ConfigUse use = ConfigUse::kTrain);

}  // namespace zerolab::app

#pragma once

#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "models/gpt.h"

namespace zerolab::checkpoint {

/// Writes a checkpoint's weights, rounded to `dtype` (fp32 or bf16), as a safetensors file with the
/// names of Hugging Face's GPT2LMHeadModel; a tied output layer is left out, as there. A chunk at a
/// time. The file has its name only once the disk has all of it; what had the name before goes.
void export_weights(const Checkpoint& checkpoint, DType dtype, const std::filesystem::path& path);

/// The weights as `model.safetensors` in `folder`, and `config.json`, which make it a model that
/// transformers' `from_pretrained` reads. `config` is the checkpoint's. Throws `Error` for a model
/// without biases: GPT-2 has them.
void export_model(const Checkpoint& checkpoint, const GptConfig& config, DType dtype,
                  const std::filesystem::path& folder);

}  // namespace zerolab::checkpoint

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/autograd/parameter.h"
#include "framework/file/tensor_file.h"

namespace zerolab {

/// A safetensors file or llm.c's: the content tells. Throws `Error`.
std::unique_ptr<TensorFile> open_weights(const std::string& path);

/// The name that Hugging Face's GPT2LMHeadModel gives a parameter of `Gpt`.
std::string hugging_face_name(const std::string& parameter);

/// Fills parameters (those of 16 bits by rounding) from a file that has the same names and shapes,
/// with or without the prefix "transformer.". Attention's mask buffers are skipped, and an output
/// layer equal to a tied embedding. `n_head` is compared where the file says its own; 0: unknown.
/// Throws `Error`, before any parameter has changed, when anything is missing, left over or of
/// another shape or dtype.
void load_weights(const std::string& path, const std::vector<Parameter*>& parameters,
                  int64_t n_head = 0);

}  // namespace zerolab

#include "checkpoint/gpt2_export.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/file/durable_file.h"
#include "framework/file/safetensors.h"
#include "models/weights.h"

namespace zerolab::checkpoint {
namespace {

constexpr int64_t kExportChunk = 1 << 20;  // elements

std::string header_of(const Manifest& manifest, DType dtype) {
  std::vector<std::pair<std::string, SafetensorsFile::Record>> records;
  int64_t begin = 0;
  for (const ParameterInfo& parameter : manifest.parameters) {
    const int64_t end = begin + parameter.numel() * size_of(dtype);
    records.push_back({hugging_face_name(parameter.name),
                       {dtype == DType::kFloat32 ? "F32" : "BF16", parameter.shape, begin, end}});
    begin = end;
  }
  return safetensors_header(records, {{"format", "pt"}});
}

template <typename T>
void write_elements(Reader& reader, const ParameterInfo& parameter, DurableFile& file) {
  std::vector<float> values;
  std::vector<T> elements;
  for (int64_t begin = 0; begin < parameter.numel(); begin += kExportChunk) {
    values.resize(std::min(kExportChunk, parameter.numel() - begin));
    reader.read(parameter.name, kWeight, begin, values);
    elements.resize(values.size());
    std::ranges::transform(values, elements.begin(), rounded<T, float>);
    file.write(std::as_bytes(std::span(elements)));
  }
}

/// What transformers' GPT2Config needs to compute what `Gpt` computes.
nlohmann::ordered_json hugging_face_config(const GptConfig& config, DType dtype) {
  constexpr int64_t kEndOfText = 50256;  // of GPT-2's vocabulary
  const nlohmann::json end_of_text =
      config.vocab_size > kEndOfText ? nlohmann::json(kEndOfText) : nlohmann::json(nullptr);
  return {{"architectures", nlohmann::json::array({"GPT2LMHeadModel"})},
          {"model_type", "gpt2"},
          {"n_layer", config.n_layer},
          {"n_head", config.n_head},
          {"n_embd", config.n_embd},
          {"n_inner", nullptr},
          {"n_positions", config.block_size},
          {"vocab_size", config.vocab_size},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", 1e-5},
          {"tie_word_embeddings", config.tie_weights},
          {"embd_pdrop", config.dropout},
          {"resid_pdrop", config.dropout},
          {"attn_pdrop", 0.0},
          {"bos_token_id", end_of_text},
          {"eos_token_id", end_of_text},
          {"torch_dtype", dtype == DType::kFloat32 ? "float32" : "bfloat16"}};
}

}  // namespace

void export_weights(const Checkpoint& checkpoint, DType dtype, const std::filesystem::path& path) {
  DurableFile file(path);
  file.write(header_of(checkpoint.manifest(), dtype));
  Reader reader(checkpoint);
  for (const ParameterInfo& parameter : checkpoint.manifest().parameters) {
    if (dtype == DType::kFloat32) {
      write_elements<float>(reader, parameter, file);
    } else {
      write_elements<BFloat16>(reader, parameter, file);
    }
  }
  file.commit();
}

void export_model(const Checkpoint& checkpoint, const GptConfig& config, DType dtype,
                  const std::filesystem::path& folder) {
  require(config.bias, "export",
          "GPT-2 has biases; got a model with model.bias = false; its weights alone can be "
          "written: give a file, as in -o model.safetensors");
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require(!error, "export", "cannot make the folder '{}': {}", folder.string(), error.message());
  export_weights(checkpoint, dtype, folder / "model.safetensors");
  DurableFile file(folder / "config.json");
  file.write(hugging_face_config(config, dtype).dump(2) + "\n");
  file.commit();
}

}  // namespace zerolab::checkpoint

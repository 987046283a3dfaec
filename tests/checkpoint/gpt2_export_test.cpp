#include "checkpoint/gpt2_export.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "framework/core/error.h"
#include "framework/file/safetensors.h"
#include "framework/tensor/backend.h"
#include "models/weights.h"
#include "tests/checkpoint/saved_engine.h"
#include "tests/data/test_files.h"
#include "tests/framework/test_rank.h"

namespace zerolab::test {
namespace {

RunSetup zero2_on_three_ranks() {
  RunSetup setup;
  setup.world_size = 3;
  setup.engine.stage = 2;
  setup.engine.reduce_bucket_size = 333;
  return setup;
}

/// The weights of a file that a new model of one rank has read.
std::vector<float> weights_in(const std::filesystem::path& file, const ModelFactory& factory) {
  TestRank rank;
  const TestModel model = factory(rank.context);
  load_weights(file.string(), model.module->parameters());
  return weights_of(model.module->parameters());
}

class ExportOfZero2 : public testing::TestWithParam<bool> {};

TEST_P(ExportOfZero2, HasTheRunsFinalWeights) {
  const std::unique_ptr<Backend> backend = fast_backend();
  const ModelFactory model = tiny_gpt(GetParam());
  const data::TempDir folder;
  const std::vector<float> expected = run(*backend, model, zero2_on_three_ranks()).weights;
  train_and_save(*backend, model, zero2_on_three_ranks(), folder.path("saved"));
  const checkpoint::Checkpoint saved(checkpoint::find_checkpoint(folder.path("saved")));

  const std::filesystem::path file = folder.path("model.safetensors");
  std::ofstream(file) << "what was there before";
  checkpoint::export_weights(saved, DType::kFloat32, file);
  EXPECT_EQ(weights_in(file, model), expected);
  const SafetensorsFile header(file.string());
  EXPECT_EQ(header.records().contains("transformer.h.1.mlp.c_fc.weight"), true);
  EXPECT_EQ(header.records().contains("lm_head.weight"), !GetParam());

  checkpoint::export_weights(saved, DType::kBFloat16, file);
  std::vector<float> rounded = expected;
  for (float& weight : rounded) {
    weight = static_cast<float>(BFloat16(weight));
  }
  EXPECT_EQ(weights_in(file, model), rounded);
  EXPECT_LT(std::filesystem::file_size(file), rounded.size() * 2 + 8192);
}

INSTANTIATE_TEST_SUITE_P(Models, ExportOfZero2, testing::Bool(),
                         [](const auto& info) { return info.param ? "tied" : "untied"; });

class Export : public testing::Test {
 protected:
  Export() {
    RunSetup setup;
    setup.steps = 1;
    train_and_save(*fast_backend(), tiny_gpt(true), setup, folder_.path("saved"));
    saved_.emplace(checkpoint::find_checkpoint(folder_.path("saved")));
  }
  std::filesystem::path path(const std::string& name) const { return folder_.path(name); }
  const checkpoint::Checkpoint& saved() const { return *saved_; }

 private:
  const data::TempDir folder_;
  std::optional<checkpoint::Checkpoint> saved_;
};

constexpr GptConfig kTiny = {
    .n_layer = 2, .n_head = 2, .n_embd = 12, .block_size = 6, .vocab_size = 19, .dropout = 0.25};

TEST_F(Export, ToAFolderSaysWhatTransformersMustKnow) {
  checkpoint::export_model(saved(), kTiny, DType::kBFloat16, path("a/model"));
  std::ifstream file(path("a/model/config.json"));
  const nlohmann::json config = nlohmann::json::parse(file);
  EXPECT_EQ(config.at("architectures"), nlohmann::json::array({"GPT2LMHeadModel"}));
  EXPECT_EQ(config.at("torch_dtype"), "bfloat16");
  EXPECT_EQ(config.at("resid_pdrop"), 0.25);
  EXPECT_EQ(config.at("eos_token_id"), nullptr);
  // What transformers wrote itself for a model of the same kind.
  std::ifstream reference(SOURCE_FOLDER "/tests/spine/reference/data/gpt2/tied/config.json");
  const nlohmann::json expected = nlohmann::json::parse(reference);
  for (const char* key : {"model_type", "activation_function", "layer_norm_epsilon", "n_inner",
                          "n_layer", "n_head", "tie_word_embeddings"}) {
    EXPECT_EQ(config.at(key), expected.at(key)) << key;
  }
  EXPECT_EQ(SafetensorsFile(path("a/model/model.safetensors").string()).records().size(), 28U);
}

TEST_F(Export, RefusesAModelWithoutBiasesAndWritesNothing) {
  GptConfig config = kTiny;
  config.bias = false;
  EXPECT_THROW(checkpoint::export_model(saved(), config, DType::kFloat32, path("model")), Error);
  EXPECT_FALSE(std::filesystem::exists(path("model")));
}

TEST_F(Export, OfADamagedCheckpointLeavesTheFileThatWasThere) {
  const std::filesystem::path part = saved().parts().front()->path();
  std::fstream damaged(part, std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(-1, std::ios::end);
  damaged.put('\x7F');
  damaged.close();
  std::ofstream(path("model.safetensors")) << "before";
  EXPECT_THROW(checkpoint::export_weights(saved(), DType::kFloat32, path("model.safetensors")),
               Error);
  EXPECT_EQ(std::filesystem::file_size(path("model.safetensors")), 6U);
  EXPECT_FALSE(std::filesystem::exists(path("model.safetensors.writing")));
}

}  // namespace
}  // namespace zerolab::test

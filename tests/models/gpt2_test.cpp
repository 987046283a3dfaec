#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "framework/meta/backend.h"
#include "framework/plain/backend.h"
#include "models/gpt.h"
#include "models/weights.h"
#include "tests/framework/test_rank.h"

namespace zerolab {
namespace {

// What transformers has and computes: tests/spine/reference/make_gpt2_logits.py.
const std::filesystem::path kReference = SOURCE_FOLDER "/tests/spine/reference/data/gpt2";

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

GptConfig config_of(const nlohmann::json& json) {
  GptConfig config;
  config.n_layer = json.at("n_layer");
  config.n_head = json.at("n_head");
  config.n_embd = json.at("n_embd");
  config.block_size = json.value("n_positions", config.block_size);
  config.vocab_size = json.value("vocab_size", config.vocab_size);
  config.tie_weights = json.value("tie_word_embeddings", true);
  return config;
}

TEST(Gpt2, HasTheNamesAndShapesOfEverySize) {
  const std::unique_ptr<Backend> plain = make_plain_backend();
  const std::unique_ptr<Backend> meta = make_meta_backend(*plain);
  const nlohmann::json sizes = read_json(kReference / "shapes.json");
  for (const auto& [size, expected] : sizes.items()) {
    RankContext context({}, *meta);
    const GptConfig config = config_of(expected);
    std::map<std::string, std::string> shapes;
    for (const auto& [name, shape] : expected.at("shapes").items()) {
      const std::string text =
          fmt::format("[{}]", fmt::join(shape.get<std::vector<int64_t>>(), ", "));
      const bool in_block = name.starts_with("h.*");
      for (int64_t layer = 0; layer < (in_block ? config.n_layer : 1); ++layer) {
        shapes[in_block ? fmt::format("h.{}{}", layer, name.substr(3)) : name] = text;
      }
    }
    const Gpt gpt({context, 1, DType::kFloat32, ""}, config);
    std::map<std::string, std::string> got;
    for (const Parameter* parameter : gpt.parameters()) {
      got[parameter->name()] = parameter->shape().to_string();
    }
    EXPECT_EQ(got, shapes) << size;
  }
}

/// A model on the plain backend with the weights of a file.
struct Loaded {
  Loaded(const std::filesystem::path& folder, const std::string& file)
      : gpt({rank.context, 1, DType::kFloat32, ""}, config_of(read_json(folder / "config.json"))) {
    load_weights((folder / file).string(), gpt.parameters(), gpt.config().n_head);
  }

  TestRank rank;
  Gpt gpt;
};

class Gpt2Logits : public testing::TestWithParam<const char*> {};

TEST_P(Gpt2Logits, AreThoseOfTransformers) {
  const std::filesystem::path folder = kReference / GetParam();
  Loaded model(folder, "model.safetensors");
  const nlohmann::json expected = read_json(folder / "logits.json");
  const auto rows = expected.at("tokens").get<std::vector<std::vector<int32_t>>>();
  std::vector<int32_t> tokens = rows[0];
  tokens.insert(tokens.end(), rows[1].begin(), rows[1].end());
  const NoGradScope no_grad(model.rank.context);
  const std::vector<float> logits =
      model.gpt.forward(model.rank.tensor<int32_t>({2, std::ssize(rows[0])}, tokens), {})
          .to_host<float>();
  const auto values = expected.at("logits").get<std::vector<float>>();
  ASSERT_EQ(logits.size(), values.size());
  float largest = 0.0F;
  for (size_t i = 0; i < logits.size(); ++i) {
    largest = std::max(largest, std::abs(logits[i] - values[i]));
  }
  EXPECT_LE(largest, 1e-5F);
  RecordProperty("largest_difference", fmt::format("{}", largest));
}

INSTANTIATE_TEST_SUITE_P(Models, Gpt2Logits, testing::Values("tied", "untied"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Gpt2, ReadsLlmcsFileOfTheSameModel) {
  const Loaded expected(kReference / "tied", "model.safetensors");
  const Loaded got(kReference / "tied", "model.bin");
  for (size_t i = 0; i < expected.gpt.parameters().size(); ++i) {
    EXPECT_EQ(got.gpt.parameters()[i]->value().to_host<float>(),
              expected.gpt.parameters()[i]->value().to_host<float>())
        << expected.gpt.parameters()[i]->name();
  }
}

}  // namespace
}  // namespace zerolab

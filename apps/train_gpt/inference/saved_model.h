#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/train_gpt/config/config.h"
#include "data/tokenizer.h"
#include "framework/tensor/rank_context.h"
#include "models/gpt.h"

namespace zerolab::app {

/// A trained model by itself, on one rank, with its tokenizer.
class SavedModel {
 public:
  /// Of one of the two.
  struct Source {
    std::filesystem::path checkpoint;    ///< of any stage and world size; or its run's folder
    std::filesystem::path config;        ///< whose `model.init_from` has the weights
    std::vector<std::string> overrides;  ///< section.key=value, over what either says
  };

  /// Throws `ConfigError` or `Error` if there is no such model.
  explicit SavedModel(const Source& source);
  ~SavedModel();

  const RunConfig& config() const { return config_; }
  const Gpt& model() const { return *model_; }
  const data::Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  RunConfig config_;
  std::unique_ptr<const data::Tokenizer> tokenizer_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<RankContext> context_;
  std::unique_ptr<Gpt> model_;
};

}  // namespace zerolab::app

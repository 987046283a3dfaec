#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "apps/train_gpt/commands/command.h"
#include "apps/train_gpt/commands/shared_options.h"
#include "apps/train_gpt/inference/evaluate.h"
#include "apps/train_gpt/inference/saved_model.h"
#include "apps/train_gpt/setup/run_tokenizer.h"
#include "data/corpus.h"
#include "data/token_dataset.h"

namespace zerolab::app {
namespace {

/// Prints the mean loss over all tokens of `files`, one after the other.
void evaluate_files(const SavedModel::Source& source, const std::vector<std::string>& files) {
  data::Corpus corpus(files);
  const SavedModel saved(source);
  int64_t bytes = 0;  // stays 0 for shards
  for (const std::string_view text : corpus.texts()) {
    bytes += std::ssize(text);
  }
  const auto dataset = corpus.kind() == data::CorpusKind::kText
                           ? data::TokenDataset::from_text(corpus, saved.tokenizer())
                           : data::TokenDataset::from_shards(std::move(corpus));
  dataset->require_tokens_below(saved.config().model.vocab_size);
  const data::TokenView text(dataset, 0, dataset->size());
  const double loss = mean_loss(saved.model(), text, start_token(saved.tokenizer()),
                                saved.config().train.micro_batch_size);
  fmt::print("tokens         {}\n", text.size());
  fmt::print("loss           {:.6f} nats a token\n", loss);
  fmt::print("perplexity     {:.4f}\n", std::exp(loss));
  if (bytes > 0) {
    const double bits = loss * static_cast<double>(text.size()) / std::numbers::ln2;
    fmt::print("bits per byte  {:.4f}\n", bits / static_cast<double>(bytes));
  }
}

}  // namespace

Command add_eval(CLI::App& program) {
  struct Options {
    SavedModel::Source source;
    std::vector<std::string> files;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* line =
      program.add_subcommand("eval", "Mean loss and perplexity of a trained model on texts");
  add_model_source(*line, options->source);
  line->add_option("FILE", options->files, "Texts or llm.c .bin shards, one after the other")
      ->required();
  return {line, [options] {
            evaluate_files(options->source, options->files);
            return 0;
          }};
}

}  // namespace zerolab::app

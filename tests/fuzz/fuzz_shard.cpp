#include "data/corpus.h"
#include "data/token_dataset.h"
#include "tests/fuzz/fuzz.h"

/// A `.bin` file of tokens, with llm.c's header or without.
FUZZ(input) {
  using namespace zerolab;
  const std::string path = fuzz::file_of(input, ".bin");
  const auto dataset =
      data::TokenDataset::from_shards(data::Corpus(std::vector<std::string>{path}));
  std::vector<int32_t> tokens(dataset->size());
  dataset->read(0, tokens);
}

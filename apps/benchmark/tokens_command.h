#pragma once

#include <string>

namespace zerolab::bench {

struct TokensCommand {
  std::string text;   ///< file that is encoded again and again
  std::string vocab;  ///< folder of GPT-2's encoder.json and vocab.bpe
  int rounds = 5;     ///< the median is printed; one before them warms up
  std::string json;   ///< file; empty: none
};

/// How fast one thread turns texts into GPT-2's tokens: the given one, and two that are made to be
/// slow. Beside it, how fast a thread finds the words of the text, and reads its bytes.
void run_tokens_command(const TokensCommand& command);

}  // namespace zerolab::bench

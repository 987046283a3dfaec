#include "apps/train_gpt/inference/generate.h"

#include <span>
#include <vector>

#include "apps/train_gpt/setup/run_tokenizer.h"
#include "data/utf8.h"
#include "models/gpt_generator.h"

namespace zerolab::app {

void generate(const Gpt& model, const data::Tokenizer& tokenizer, std::string_view prompt,
              const GenerateOptions& options, const std::function<bool(std::string_view)>& out) {
  const std::vector<int32_t> tokens =
      prompt.empty() ? std::vector{start_token(tokenizer)} : tokenizer.encode(prompt);
  GptGenerator generator(model, tokens, options.use_cache);
  data::Utf8Joiner text;
  for (int64_t i = 0; i < options.tokens; ++i) {
    // A model may have more tokens than there are texts for: padding of its vocabulary.
    const std::vector<float> logits = generator.logits();
    const auto known = std::span(logits).first(tokenizer.vocab_size());
    const int32_t token = sample_token(known, options.sampling, i);
    generator.append(token);
    if (!out(text.push(tokenizer.decode(std::span(&token, 1))))) {
      return;
    }
  }
  out(text.rest());
}

}  // namespace zerolab::app

#include "data/bpe_tokenizer.h"
#include "data/unicode.h"
#include "tests/fuzz/fuzz.h"

/// Made here, so that no input is charged with it.
[[maybe_unused]] static const auto& classes = zerolab::data::CharClasses::get();

/// encoder.json, a zero byte, vocab.bpe, and after another zero byte a text to encode.
FUZZ(input) {
  using namespace zerolab;
  const auto cut_off = [&] {
    const std::string_view part = input.substr(0, input.find('\0'));
    input.remove_prefix(std::min(part.size() + 1, input.size()));
    return part;
  };
  const std::string_view encoder = cut_off();
  const std::string_view merges = cut_off();
  const data::BpeTokenizer tokenizer(data::BpeVocabulary(encoder, merges));
  require(tokenizer.decode(tokenizer.encode(input)) == input, "fuzz", "a text does not come back");
}

#include "models/weights.h"
#include "tests/fuzz/fuzz.h"

/// A file of weights, safetensors or llm.c's, with all it holds.
FUZZ(input) {
  using namespace zerolab;
  const std::unique_ptr<TensorFile> file = open_weights(fuzz::file_of(input, ".weights"));
  for (const std::string& name : file->names()) {
    file->read(name);
  }
}

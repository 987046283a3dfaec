#include "models/safetensors.h"
#include "tests/fuzz/fuzz.h"

/// A safetensors file, with all it holds.
FUZZ(input) {
  using namespace zerolab;
  SafetensorsFile file(fuzz::file_of(input, ".safetensors"));
  for (const auto& [name, record] : file.records()) {
    if (record.dtype == "F32") {
      file.read(name);
    }
  }
}

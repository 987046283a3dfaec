#pragma once

#include <filesystem>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "apps/train_gpt/config/config.h"

namespace zerolab::test {

using Weights = std::map<std::string, std::vector<float>>;

struct ReferenceRow {
  double loss = 0.0;
  double gradient_norm = 0.0;
};

/// What PyTorch computed, and the run that must compute the same.
struct Reference {
  std::vector<std::string> config;  ///< "section.key=value", init_from and data.path included
  std::vector<ReferenceRow> rows;   ///< one a step
  Weights weights;                  ///< after the last step
  /// Weights, as "name[index]", whose last value rounding decides; the script says why.
  std::vector<std::string> uncertain;
};

/// A folder below data/, made by make_reference.py or make_gpt_tiny.py.
Reference load_reference(const std::filesystem::path& folder);

/// One way to run a reference.
struct Setup {
  std::string backend;
  int stage = 0;
  bool reduce_scatter = true;
  bool overlap = false;

  std::string name() const;
  friend std::ostream& operator<<(std::ostream& out, const Setup& setup) {
    return out << setup.name();
  }
};
/// Stages 0, 1 and 2, reduce-scatter or all-reduce, overlap on and off, on the plain and (where it
/// was built) the fast backend.
std::vector<Setup> all_setups();

struct Result {
  std::vector<ReferenceRow> rows;
  Weights weights;
};
/// Trains through train-gpt's own path: configuration, corpus, loader, model, engine.
Result train(const Reference& reference, const Setup& setup);

/// How far a result is from its reference.
struct Errors {
  double loss = 0.0;           ///< largest |difference| / |loss|
  double gradient_norm = 0.0;  ///< likewise
  double weight = 0.0;         ///< largest |difference| / largest |weight| of the model
  std::string worst;           ///< where that weight stands
};
/// Leaves out the uncertain weights, and the key third of each attention bias: softmax does not see
/// what is added to all keys, so its true gradient is 0, and Adam turns the rounding that is left
/// into steps.
Errors errors(const Result& result, const Reference& reference);

}  // namespace zerolab::test

#pragma once

#include <string>
#include <vector>

#include "tests/data/test_files.h"
#include "tests/train_gpt/config/configs.h"

namespace zerolab::app {

inline std::vector<std::string> joined(std::vector<std::string> a,
                                       const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A small model and a text for it.
class SmallModel {
 public:
  SmallModel() { folder_.write("text.txt", std::string(4000, 'a') + "bcdefg"); }
  RunConfig config(const std::vector<std::string>& settings) const {
    return resolved(
        joined({"data.path=" + folder_.path("text.txt"), "launch.backend=plain", "model.n_layer=2",
                "model.n_head=2", "model.n_embd=12", "model.block_size=8", "model.vocab_size=256",
                "train.micro_batch_size=2", "run.steps=3"},
               settings));
  }

 private:
  data::TempDir folder_;
};

}  // namespace zerolab::app

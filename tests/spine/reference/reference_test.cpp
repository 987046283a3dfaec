#include "tests/spine/reference/reference.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

namespace zerolab::test {
namespace {

const std::filesystem::path kData = SOURCE_FOLDER "/tests/spine/reference/data";

struct Bounds {
  double loss;
  double gradient_norm;
  double weight;
};

class PyTorch : public testing::TestWithParam<Setup> {
 protected:
  static void expect_same(const Reference& reference, const Bounds& bounds) {
    const Errors found = errors(train(reference, GetParam()), reference);
    EXPECT_LE(found.loss, bounds.loss);
    EXPECT_LE(found.gradient_norm, bounds.gradient_norm);
    EXPECT_LE(found.weight, bounds.weight) << found.worst;
    RecordProperty("loss", to_text(found.loss));
    RecordProperty("gradient_norm", to_text(found.gradient_norm));
    RecordProperty("weight", to_text(found.weight));
    RecordProperty("worst_weight", found.worst);
  }

 private:
  static std::string to_text(double value) {
    std::ostringstream text;
    text << value;
    return text.str();
  }
};

TEST_P(PyTorch, TiedGptOnFourRanksWithTwoMicroBatches) {
  // The reference is fp32 itself, so these bounds hold its own rounding too.
  expect_same(load_reference(kData / "gpt-tiny"),
              {.loss = 2e-5, .gradient_norm = 2e-4, .weight = 5e-5});
}

// These references are fp64.
TEST_P(PyTorch, UntiedGptWithMomentum) {
  expect_same(load_reference(kData / "sgd-untied"),
              {.loss = 1e-6, .gradient_norm = 5e-6, .weight = 5e-6});
}

TEST_P(PyTorch, TiedGptWithoutBiasesWithAdamW) {
  expect_same(load_reference(kData / "adamw-tied"),
              {.loss = 1e-6, .gradient_norm = 5e-6, .weight = 5e-6});
}

INSTANTIATE_TEST_SUITE_P(Setups, PyTorch, testing::ValuesIn(all_setups()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace zerolab::test

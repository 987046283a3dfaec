#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "framework/onednn/backend.h"
#include "framework/plain/backend.h"
#include "tests/framework/onednn_rank.h"

namespace zerolab::test::onednn {

inline constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();
inline constexpr int64_t kOddSizes[] = {1, 3, 17, 65, 127, 257};

using Outputs = std::vector<std::vector<float>>;
/// Runs a kernel on a rank and gives back all that it wrote.
using PlainKernel = std::function<Outputs(Rank&)>;

class Onednn : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!onednn_is_available()) {
      GTEST_SKIP() << "built without oneDNN";
    }
  }

  static Outputs run(const PlainKernel& kernel, int threads) {
    Rank rank(make_onednn_backend(), threads);
    return kernel(rank);
  }

  /// Within tolerance * (largest of the output) of plain, and the same bits with one thread as with
  /// two.
  static void compare(const PlainKernel& kernel, double tolerance, bool same_bits = true) {
    Rank plain(make_plain_backend(), 1);
    const Outputs expected = kernel(plain);
    const Outputs got = run(kernel, 2);
    const Outputs alone = run(kernel, 1);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t output = 0; output < got.size(); ++output) {
      ASSERT_EQ(got[output].size(), expected[output].size());
      double largest = 0.0;
      double error = 0.0;
      for (size_t i = 0; i < got[output].size(); ++i) {
        ASSERT_EQ(std::isfinite(got[output][i]), std::isfinite(expected[output][i])) << i;
        largest = std::max<double>(largest, std::abs(expected[output][i]));
        error = std::max<double>(error, std::abs(got[output][i] - expected[output][i]));
      }
      EXPECT_LE(error, tolerance * largest) << "output " << output;
      if (same_bits) {
        EXPECT_EQ(0, std::memcmp(got[output].data(), alone[output].data(),
                                 got[output].size() * sizeof(float)))
            << "output " << output;
      }
    }
  }
};

}  // namespace zerolab::test::onednn

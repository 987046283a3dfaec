#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "framework/core/error.h"
#include "tests/cuda/compare.h"

namespace zerolab {
namespace {

constexpr float kTolerance = 1e-5F;
constexpr int64_t kBatch = 2;
constexpr int64_t kHeads = 2;

class CudaAttention : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, CudaAttention, kDeviceTypes, type_name);

/// Sequences that end before, at and behind the edges of tiles.
template <typename Body>
void for_sizes(Body&& body) {
  for (const int64_t head_size : {4, 12, 64, 80, 128}) {
    for (const int64_t length : {1, 7, 64, 65}) {
      SCOPED_TRACE(std::to_string(length) + " positions, heads of " + std::to_string(head_size));
      body(length, kHeads * head_size);
    }
  }
}

TEST_P(CudaAttention, ForwardIsPlains) {
  for_sizes([&](int64_t length, int64_t width) {
    compare(
        GetParam(),
        [&](Side& side) {
          const Tensor qkv = side.random(Shape{kBatch, length, 3 * width}, 1);
          const Tensor out = side.random(Shape{kBatch, length, width}, 2);
          const Shape rows = Shape{kBatch, kHeads, length};
          const Tensor log_sum_exp = side.statistics(rows, random_numbers(rows.numel(), 3));
          side.backend().attention_forward(side.stream(), qkv, kHeads, out, log_sum_exp);
          return std::vector<Tensor>{out, log_sum_exp};
        },
        kTolerance);
  });
}

TEST_P(CudaAttention, BackwardIsPlains) {
  for_sizes([&](int64_t length, int64_t width) {
    const Shape shape = {kBatch, length, width};
    const Shape shape_qkv = {kBatch, length, 3 * width};
    const Shape rows = {kBatch, kHeads, length};
    Side plain = Side::plain(GetParam());
    const Tensor out = Tensor::zeros(plain.rank.context, shape, DType::kFloat32);
    const Tensor log_sum_exp = Tensor::zeros(plain.rank.context, rows, DType::kFloat32);
    plain.backend().attention_forward(plain.stream(), plain.random(shape_qkv, 1), kHeads, out,
                                      log_sum_exp);
    for (const bool accumulate : {false, true}) {
      compare(
          GetParam(),
          [&](Side& side) {
            const Tensor dqkv = side.random(shape_qkv, 3);
            side.backend().attention_backward(side.stream(), side.random(shape_qkv, 1),
                                              side.tensor(shape, values_of(out), side.type),
                                              side.statistics(rows, values_of(log_sum_exp)),
                                              side.random(shape, 2), kHeads, dqkv, accumulate);
            return std::vector<Tensor>{dqkv};
          },
          kTolerance);
    }
  });
}

// Scores of some hundreds: their exponentials are infinite unless the largest is taken off first.
TEST_P(CudaAttention, LargeScoresDoNotOverflow) {
  compare(
      GetParam(),
      [&](Side& side) {
        const Tensor qkv = side.random(Shape{1, 70, 3 * 16}, 1, 16.0F);
        const Tensor out = side.random(Shape{1, 70, 16}, 2);
        const Tensor log_sum_exp = side.statistics(Shape{1, 1, 70}, random_numbers(70, 3));
        side.backend().attention_forward(side.stream(), qkv, 1, out, log_sum_exp);
        return std::vector<Tensor>{out, log_sum_exp};
      },
      1e-4F);
}

TEST(CudaAttention, LargerHeadsAreRefused) {
  Side side = Side::device(DType::kFloat32);
  const Tensor qkv = side.random(Shape{1, 1, 3 * 129}, 1);
  const Tensor out = side.random(Shape{1, 1, 129}, 2);
  const Tensor log_sum_exp = side.statistics(Shape{1, 1, 1}, {0});
  try {
    side.backend().attention_forward(side.stream(), qkv, 1, out, log_sum_exp);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("got 129 components, expected at most 128"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace zerolab

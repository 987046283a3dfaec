#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>

#include "framework/core/error.h"
#include "framework/kernels/attention_mask.h"
#include "tests/cuda/both.h"

namespace zerolab {
namespace {

constexpr double kRelative = 1e-5;
constexpr double kAbsolute = 2e-5;
constexpr int64_t kBatch = 2;
constexpr int64_t kHeads = 2;

/// Sequences that end before, at and after the edge of a tile.
template <typename Body>
void for_sizes(Body&& body) {
  for (const int64_t head_size : {4, 12, 64, 80, 128}) {
    for (const int64_t length : {1, 7, 64, 65}) {
      SCOPED_TRACE(fmt::format("{} positions, heads of {}", length, head_size));
      body(length, kHeads * head_size);
    }
  }
}

constexpr AttentionMask kMasks[] = {AttentionMask::kCausal, AttentionMask::kNone};

void expect_forward_is_plains(Both& both, DType dtype, AttentionMask mask, int64_t length,
                              int64_t width, double absolute) {
  const Twin qkv = both.normal(Shape{kBatch, length, 3 * width}, dtype, "qkv");
  const Twin out = both.empty(Shape{kBatch, length, width}, dtype);
  const Twin log_sum_exp = both.empty(Shape{kBatch, kHeads, length}, DType::kFloat32);
  both.run([&](Backend& backend, Stream& stream, auto on) {
    backend.attention_forward(stream, on(qkv), kHeads, mask, on(out), on(log_sum_exp));
  });
  both.expect_close(out, kRelative, absolute);
  both.expect_close(log_sum_exp, kRelative, absolute);
}

void expect_backward_is_plains(Both& both, DType dtype, AttentionMask mask, int64_t length,
                               int64_t width, double absolute) {
  const Twin qkv = both.normal(Shape{kBatch, length, 3 * width}, dtype, "qkv");
  const Twin dy = both.normal(Shape{kBatch, length, width}, dtype, "dy");
  const Tensor out = Tensor::empty_like(dy.plain);
  const Tensor log_sum_exp =
      Tensor::empty(both.plain.context, Shape{kBatch, kHeads, length}, DType::kFloat32);
  both.plain.backend->attention_forward(both.plain.context.compute(), qkv.plain, kHeads, mask, out,
                                        log_sum_exp);
  const Twin saved = both.twin(out);
  const Twin saved_log_sum_exp = both.twin(log_sum_exp);
  const Twin dqkv = both.empty(qkv.plain.shape(), dtype);
  const Twin again = both.empty(qkv.plain.shape(), dtype);
  const Twin more = both.normal(qkv.plain.shape(), dtype, "more");
  both.run([&](Backend& backend, Stream& stream, auto on) {
    const auto backward = [&](const Twin& gradient, bool accumulate) {
      backend.attention_backward(stream, on(qkv), on(saved), on(saved_log_sum_exp), on(dy), kHeads,
                                 mask, on(gradient), accumulate);
    };
    backward(dqkv, false);
    backward(again, false);
    backward(more, true);
  });
  both.expect_close(dqkv, kRelative, absolute);
  both.expect_close(more, kRelative, absolute);
  EXPECT_EQ(both.cuda.to_host(dqkv.cuda), both.cuda.to_host(again.cuda));
}

class CudaAttentionKernels : public CudaKernels {};
INSTANTIATE_TEST_SUITE_P(, CudaAttentionKernels, all_cases(), name_of_case);

TEST_P(CudaAttentionKernels, ForwardIsPlains) {
  for (const AttentionMask mask : kMasks) {
    for_sizes([&](int64_t length, int64_t width) {
      expect_forward_is_plains(both, dtype, mask, length, width, kAbsolute);
    });
  }
}

TEST_P(CudaAttentionKernels, OfTheLastIsPlains) {
  for_sizes([&](int64_t length, int64_t width) {
    const Twin qkv = both.normal(Shape{kBatch, length, 3 * width}, dtype, "qkv");
    const Twin out = both.empty(Shape{kBatch, 1, width}, dtype);
    both.run([&](Backend& backend, Stream& stream, auto on) {
      backend.attention_last(stream, on(qkv), kHeads, on(out));
    });
    both.expect_close(out, kRelative, kAbsolute);
  });
}

TEST_P(CudaAttentionKernels, BackwardIsPlains) {
  for (const AttentionMask mask : kMasks) {
    for_sizes([&](int64_t length, int64_t width) {
      expect_backward_is_plains(both, dtype, mask, length, width, kAbsolute);
    });
  }
}

// Scores of some hundreds: their exponentials are infinite unless the largest is taken off first.
TEST_P(CudaAttentionKernels, LargeScoresDoNotOverflow) {
  const Twin qkv = both.normal(Shape{1, 70, 3 * 16}, dtype, "qkv");
  const Twin out = both.empty(Shape{1, 70, 16}, dtype);
  const Twin log_sum_exp = both.empty(Shape{1, 1, 70}, DType::kFloat32);
  both.run([&](Backend& backend, Stream& stream, auto on) {
    backend.scale(stream, on(qkv), 16.0, on(qkv), false);
    backend.attention_forward(stream, on(qkv), 1, AttentionMask::kCausal, on(out), on(log_sum_exp));
  });
  both.expect_close(out, 1e-4, 1e-3);
  both.expect_close(log_sum_exp, 1e-5, 0.0);
}

/// Why cuDNN's attention cannot be had, or nothing.
std::string missing_cudnn() {
  try {
    make_cuda_backend({.attention = CudaAttention::kCudnn});
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// As in every program that simulates a device.
TEST(CudnnAttention, IsRefusedWhereItIsMissing) {
  const std::string missing = missing_cudnn();
  EXPECT_TRUE(missing.empty() || missing.ends_with("use the flash kernel")) << missing;
}

// Unlike our kernel it rounds the weights to 16 bits before it multiplies with them.
TEST(CudnnAttention, IsPlainsWithinTheRoundingOfWeights) {
  const std::string missing = missing_cudnn();
  if (!missing.empty()) {
    GTEST_SKIP() << missing;
  }
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const double absolute = dtype == DType::kBFloat16 ? 0x1p-5 : 0x1p-8;
    for (const int64_t head_size : {64, 128}) {
      for (const int64_t length : {7, 64, 200}) {
        SCOPED_TRACE(fmt::format("{} positions, heads of {}", length, head_size));
        Both both(1, {.attention = CudaAttention::kCudnn});
        for (const AttentionMask mask : kMasks) {
          expect_forward_is_plains(both, dtype, mask, length, kHeads * head_size, absolute);
          expect_backward_is_plains(both, dtype, mask, length, kHeads * head_size, absolute);
        }
      }
    }
  }
}

TEST(CudaAttention, LargerHeadsAreRefused) {
  Both both;
  const Twin qkv = both.empty(Shape{1, 1, 3 * 129}, DType::kFloat32);
  const Twin out = both.empty(Shape{1, 1, 129}, DType::kFloat32);
  const Twin log_sum_exp = both.empty(Shape{1, 1, 1}, DType::kFloat32);
  try {
    both.cuda.backend->attention_forward(both.cuda.stream, qkv.cuda, 1, AttentionMask::kCausal,
                                         out.cuda, log_sum_exp.cuda);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("got 129 components, expected at most 128"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace zerolab

#include "framework/ops/rearrange.h"

#include <gtest/gtest.h>

#include "framework/kernels/strided_copy.h"
#include "tests/framework/onednn/plain_comparison.h"

namespace zerolab::test::onednn {
namespace {

TEST_F(Onednn, SoftmaxAndSiluAgreeWithPlain) {
  for (const int64_t cols : kOddSizes) {
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(testing::Message() << cols << " " << accumulate);
      compare(
          [&](Rank& rank) {
            Backend& backend = *rank.backend;
            const Tensor x = rank.random(Shape{301, cols}, 1, 3.0F);
            const Tensor dy = rank.random(x.shape(), 2);
            const Tensor softmax = Tensor::empty_like(x);
            const Tensor silu = Tensor::empty_like(x);
            const Tensor dsoftmax = rank.random(x.shape(), 3);
            const Tensor dsilu = rank.random(x.shape(), 4);
            backend.softmax_forward(rank.stream(), x, softmax);
            backend.softmax_backward(rank.stream(), softmax, dy, dsoftmax, accumulate);
            backend.silu_forward(rank.stream(), x, silu);
            backend.silu_backward(rank.stream(), x, dy, dsilu, accumulate);
            return Outputs{softmax.to_host<float>(), dsoftmax.to_host<float>(),
                           silu.to_host<float>(), dsilu.to_host<float>()};
          },
          1e-6);
    }
  }
}

TEST_F(Onednn, MeansAndOtherOrdersArePlainsToTheBit) {
  for (const int64_t cols : kOddSizes) {
    SCOPED_TRACE(cols);
    compare(
        [&](Rank& rank) {
          const Tensor x = rank.random(Shape{7, 5, 9, cols}, 1);
          const Tensor mean = Tensor::empty(rank.context, Shape{35, cols}, DType::kFloat32);
          rank.backend->mean_positions(rank.stream(), x.view(Shape{35, 9, cols}), mean);
          Outputs outputs = {mean.to_host<float>()};
          for (const Tensor& made :
               {ops::transpose(x, 0, 2), ops::transpose(x, 1, 3), ops::slice(x, 2, 3, 4),
                ops::concatenate(x, rank.random(Shape{7, 5, 9, 3}, 2), 3)}) {
            outputs.push_back(made.to_host<float>());
          }
          const Tensor added = rank.random(Shape{7, 5, 9, cols}, 3);
          const StridedCopy repeat = {.extents = {7, 5, 9, cols},
                                      .source = {.strides = {0, 0, cols, 1}},
                                      .out = {.strides = {45 * cols, 9 * cols, cols, 1}}};
          rank.backend->copy_strided(rank.stream(), x, repeat, added, true);
          outputs.push_back(added.to_host<float>());
          return outputs;
        },
        0.0);
  }
}

}  // namespace
}  // namespace zerolab::test::onednn

#include "tests/comm/failing.h"

namespace zerolab {
namespace {

std::string disagreement(const std::string& mine, const std::string& theirs) {
  return "[comm] ranks disagree at collective 2: rank 0 calls " + mine + ", rank 2 calls " +
         theirs + "; all ranks must make the same calls in the same order";
}

/// Rank 2 calls `odd`, the others `common`, after a collective in which all agree.
Outcome disagree(const RankBody& common, const RankBody& odd) {
  return run_failing([&](RankContext& context, Communicator& communicator) {
    gather(context, communicator, context.communication());
    (context.rank() == 2 ? odd : common)(context, communicator);
    context.communication().synchronize();
  });
}

TEST(Mismatch, OfTheOpIsNamedOnEveryRank) {
  const Outcome outcome = disagree(
      [](RankContext& context, Communicator& communicator) {
        const Tensor buffer = tensor_of_rank(context, 1024);
        communicator.reduce_scatter(context.communication(), buffer, 4, kGradientTag);
        context.communication().synchronize();
      },
      [](RankContext& context, Communicator& communicator) {
        const Tensor buffer = tensor_of_rank(context, 1024);
        communicator.all_gather(context.communication(), buffer, kParameterTag);
        context.communication().synchronize();
      });
  expect_on_every_rank(
      outcome, disagreement("reduce_scatter(gradient, bucket 3, 4096 bytes of fp32, divisor 4)",
                            "all_gather(parameter, bucket 0, 4096 bytes of fp32)"));
}

TEST(Mismatch, OfSizeTagDtypeRootOrDivisorIsNamedOnEveryRank) {
  const auto broadcast = [](int64_t numel, DType dtype, int root, CommTag tag) -> RankBody {
    return [=](RankContext& context, Communicator& communicator) {
      const Tensor buffer = Tensor::zeros(context, Shape{numel}, dtype);
      communicator.broadcast(context.compute(), buffer, root, tag);
      context.compute().synchronize();
    };
  };
  const RankBody common = broadcast(8, DType::kFloat32, 1, kParameterTag);
  const std::string mine = "broadcast(parameter, bucket 0, 32 bytes of fp32, root 1)";
  expect_on_every_rank(
      disagree(common, broadcast(9, DType::kFloat32, 1, kParameterTag)),
      disagreement(mine, "broadcast(parameter, bucket 0, 36 bytes of fp32, root 1)"));
  expect_on_every_rank(
      disagree(common, broadcast(8, DType::kInt32, 1, kParameterTag)),
      disagreement(mine, "broadcast(parameter, bucket 0, 32 bytes of int32, root 1)"));
  expect_on_every_rank(
      disagree(common, broadcast(8, DType::kFloat32, 0, kParameterTag)),
      disagreement(mine, "broadcast(parameter, bucket 0, 32 bytes of fp32, root 0)"));
  expect_on_every_rank(disagree(common, broadcast(8, DType::kFloat32, 1, {})),
                       disagreement(mine, "broadcast(control, 32 bytes of fp32, root 1)"));
  const auto reduce = [](double divisor) -> RankBody {
    return [=](RankContext& context, Communicator& communicator) {
      const Tensor buffer = tensor_of_rank(context, 8);
      communicator.all_reduce(context.compute(), buffer, divisor, kGradientTag);
    };
  };
  expect_on_every_rank(
      disagree(reduce(4), reduce(2.5)),
      disagreement("all_reduce(gradient, bucket 3, 32 bytes of fp32, divisor 4)",
                   "all_reduce(gradient, bucket 3, 32 bytes of fp32, divisor 2.5)"));
}

TEST(Mismatch, OfThePartOfASliceIsNamedOnEveryRank) {
  const auto gather_part = [](const SlicePart& part) -> RankBody {
    return [=](RankContext& context, Communicator& communicator) {
      const Tensor buffer = tensor_of_rank(context, 32);
      communicator.all_gather(context.compute(), buffer, kNormTag, part);
    };
  };
  const std::string part =
      "all_gather(parameter, bucket 2: h.0.ln_1.weight … h.0.ln_1.bias, 128 bytes of fp32, "
      "elements [2, {}) of each slice)";
  expect_on_every_rank(
      disagree(gather_part({2, 3}), gather_part({2, -1})),
      disagreement(fmt::format(fmt::runtime(part), 5), fmt::format(fmt::runtime(part), 8)));
  expect_on_every_rank(disagree(gather_part({}), gather_part({2, 0})),
                       disagreement(kWholeGather, fmt::format(fmt::runtime(part), 2)));
}

TEST(Mismatch, IsNoMatterOfTheParametersNames) {
  on_ranks(2, [](RankContext& context, Communicator& communicator) {
    CommTag tag = kNormTag;
    tag.description = std::make_shared<const std::string>(context.rank() == 0 ? "wte" : "wpe");
    const Tensor buffer = tensor_of_rank(context, 2);
    communicator.all_gather(context.compute(), buffer, tag);
    EXPECT_EQ(buffer.to_host<float>(), (std::vector<float>{value(0, 0), value(1, 1)}));
  });
}

TEST(Mismatch, OfABarrierIsNamedOnEveryRank) {
  expect_on_every_rank(
      disagree([](RankContext&, Communicator& communicator) { communicator.barrier(); },
               [](RankContext& context, Communicator& communicator) {
                 gather(context, communicator, context.compute());
               }),
      disagreement("barrier()", kWholeGather));
}

}  // namespace
}  // namespace zerolab

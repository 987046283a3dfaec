#include <chrono>
#include <thread>

#include "tests/comm/ranks.h"

namespace zerolab {
namespace {

TEST(Spans, TellWaitingFromTransfer) {
  on_ranks(2, [](RankContext& context, Communicator& communicator) {
    const Tensor buffer = tensor_of_rank(context, 10000);
    communicator.barrier();
    context.recorder().take();
    if (context.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    communicator.all_reduce(context.compute(), buffer, 1.0, kGradientTag);
    const std::vector<Span> spans = context.recorder().take();
    ASSERT_EQ(spans.size(), 2);
    EXPECT_EQ(spans[0].kind, SpanKind::kCommWait);
    EXPECT_EQ(spans[1].kind, SpanKind::kCommTransfer);
    for (const Span& span : spans) {
      EXPECT_EQ(span.name, "all_reduce");
      EXPECT_EQ(span.bucket, kGradientTag.bucket);
      EXPECT_GE(span.milliseconds(), 0.0);
    }
    EXPECT_EQ(spans[1].bytes, 40000);
    EXPECT_EQ(spans[0].end, spans[1].begin);
    const auto entry =
        communicator.ledger().entries().at({CollectiveOp::kAllReduce, Purpose::kGradient});
    EXPECT_EQ(entry.wait_ms, spans[0].milliseconds());
    EXPECT_EQ(entry.transfer_ms, spans[1].milliseconds());
    if (context.rank() == 0) {
      EXPECT_GE(spans[0].milliseconds(), 50.0);
    }
  });
}

}  // namespace
}  // namespace zerolab

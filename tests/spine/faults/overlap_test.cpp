#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "framework/core/cpu_stream.h"
#include "framework/core/philox.h"
#include "framework/plain/backend.h"
#include "tests/spine/faults/variants.h"

namespace zerolab::test {
namespace {

using std::chrono::microseconds;

/// Passes every verb on, some of them late.
class SlowCommunicator final : public Communicator {
 public:
  SlowCommunicator(Communicator& inner, microseconds delay, uint64_t one_in)
      : inner_(inner), delay_(delay), one_in_(one_in) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void all_reduce(Stream& stream, const Tensor& buffer, double divisor,
                  const CommTag& tag) override {
    slow_down(stream);
    inner_.all_reduce(stream, buffer, divisor, tag);
  }
  void reduce_scatter(Stream& stream, const Tensor& buffer, double divisor,
                      const CommTag& tag) override {
    slow_down(stream);
    inner_.reduce_scatter(stream, buffer, divisor, tag);
  }
  void all_gather(Stream& stream, const Tensor& buffer, const CommTag& tag,
                  const SlicePart& part) override {
    slow_down(stream);
    inner_.all_gather(stream, buffer, tag, part);
  }
  void reduce(Stream& stream, const Tensor& buffer, int root, double divisor,
              const CommTag& tag) override {
    slow_down(stream);
    inner_.reduce(stream, buffer, root, divisor, tag);
  }
  void broadcast(Stream& stream, const Tensor& buffer, int root, const CommTag& tag) override {
    slow_down(stream);
    inner_.broadcast(stream, buffer, root, tag);
  }
  void barrier() override { inner_.barrier(); }
  void abort(std::string_view reason) override { inner_.abort(reason); }

 private:
  void slow_down(Stream& stream) {
    if (philox(rank(), calls_++, 0)[0] % one_in_ == 0) {
      static_cast<CpuStream&>(stream).launch(
          [delay = delay_] { std::this_thread::sleep_for(delay); });
    }
  }

  Communicator& inner_;
  const microseconds delay_;
  const uint64_t one_in_;
  uint64_t calls_ = 0;
};

void make_communication_slow(RunSetup& setup, microseconds delay, uint64_t one_in) {
  setup.wrap_communicator = [delay, one_in](RankContext&, Communicator& inner) {
    return std::make_unique<SlowCommunicator>(inner, delay, one_in);
  };
}

/// Hundreds of tiny buckets: one a parameter.
ExactModel tiny_buckets() {
  std::vector<int64_t> sizes;
  for (int i = 0; i < 200; ++i) {
    sizes.push_back(1 + i % 5);
  }
  return {.shapes = flat_shapes(sizes), .coefficient = ExactModel::multiples_of(12)};
}

RunSetup tiny_buckets_setup(int stage, int steps) {
  RunSetup setup = exact_setup(2);
  setup.steps = steps;
  setup.engine.stage = stage;
  setup.engine.overlap_comm = true;
  setup.engine.reduce_bucket_size = 1;
  return setup;
}

class TinyBuckets : public testing::TestWithParam<int> {};

TEST_P(TinyBuckets, Row11_SlowCommunicationAndFastCompute) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  const ExactModel model = tiny_buckets();
  RunSetup setup = tiny_buckets_setup(GetParam(), GetParam() == 2 ? 200 : 30);
  make_communication_slow(setup, microseconds(20), 16);
  EXPECT_EQ(run(*backend, model.factory(), setup).weights, expected_weights(model, setup));
}

TEST_P(TinyBuckets, Row11_FastCommunicationAndSlowCompute) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  ExactModel model = tiny_buckets();
  model.during_backward = [](RankContext& context, const autograd::Destination&) {
    thread_local uint64_t calls = 0;
    if (philox(context.rank(), calls++, 1)[0] % 16 == 0) {
      std::this_thread::sleep_for(microseconds(20));
    }
  };
  const RunSetup setup = tiny_buckets_setup(GetParam(), GetParam() == 1 ? 200 : 30);
  EXPECT_EQ(run(*backend, model.factory(), setup).weights, expected_weights(model, setup));
}

INSTANTIATE_TEST_SUITE_P(Faults, TinyBuckets, testing::Values(0, 1, 2));

struct Milliseconds {
  double communication = 0.0;  ///< waiting for peers and moving bytes
  double exposed = 0.0;
  double hidden() const { return std::max(0.0, communication - exposed); }
};

/// Rank 0's times of a few steps in which each verb takes 3 ms, and each gradient as long.
Milliseconds measure(const RunSetup& setup) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  ExactModel model = {.shapes = flat_shapes({100, 100, 100, 100})};
  model.during_backward = [](RankContext& context, const autograd::Destination&) {
    // Rank 1 is late, so that rank 0's verbs last; and rank 0 computes for as long as they do,
    // however busy the machine is.
    if (context.rank() == 1) {
      std::this_thread::sleep_for(microseconds(3000));
    } else {
      context.communication().synchronize();
    }
  };
  Milliseconds total;
  on_engines(*backend, model.factory(), setup, [&](EngineRank& rank) {
    rank.context.recorder().take();
    for (int step = 0; step < 3; ++step) {
      rank.accumulate(setup, step);
      rank.engine.step({.learning_rate = setup.learning_rate});
    }
    rank.engine.wait_for_parameters();
    for (const Span& span : rank.context.recorder().take()) {
      if (rank.communicator.rank() != 0) {
        continue;
      }
      if (span.kind == SpanKind::kCommWait || span.kind == SpanKind::kCommTransfer) {
        total.communication += span.milliseconds();
      } else if (span.kind == SpanKind::kCommExposed) {
        total.exposed += span.milliseconds();
      }
    }
  });
  return total;
}

TEST(Faults, Row15_HiddenTimeIsReportedWithOverlapAndOnlyThen) {
  for (RunSetup setup : stages_of(exact_setup(2))) {
    setup.engine.reduce_bucket_size = 100;
    const Milliseconds ms = measure(setup);
    EXPECT_GT(ms.communication, 1.0) << setup.to_string();
    if (setup.engine.overlap_comm) {
      EXPECT_GT(ms.hidden(), 1.0) << setup.to_string();
    } else {
      EXPECT_EQ(ms.hidden(), 0.0) << setup.to_string();
    }
  }
}

}  // namespace
}  // namespace zerolab::test

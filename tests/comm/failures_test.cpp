#include <fmt/core.h>

#include <atomic>
#include <thread>

#include "framework/plain/plain_backend.h"
#include "tests/comm/ranks.h"

namespace zerolab {
namespace {

using std::chrono::milliseconds;

constexpr int kRanks = 4;

const CommTag kNormTag = {Purpose::kParameter, 2,
                          std::make_shared<const std::string>("h.0.ln_1.weight … h.0.ln_1.bias")};
const std::string kGather = "all_gather(parameter, bucket 2: h.0.ln_1.weight … h.0.ln_1.bias)";
const std::string kWholeGather =
    "all_gather(parameter, bucket 2: h.0.ln_1.weight … h.0.ln_1.bias, 128 bytes of fp32)";

void gather(RankContext& context, Communicator& communicator, Stream& stream) {
  const Tensor buffer = tensor_of_rank(context, 8 * communicator.size());
  communicator.all_gather(stream, buffer, kNormTag);
  stream.synchronize();
}

struct Outcome {
  std::string thrown;              ///< by run_ranks
  std::vector<std::string> ranks;  ///< by each rank
  double seconds = 0;
};

Outcome run_failing(Backend& backend, const RankBody& body, const RanksOptions& options = {}) {
  Outcome outcome;
  outcome.ranks.resize(kRanks);
  const Clock::time_point begin = Clock::now();
  outcome.thrown = error_of([&] {
    on_ranks(
        backend, kRanks,
        [&](RankContext& context, Communicator& communicator) {
          try {
            body(context, communicator);
          } catch (const std::exception& error) {
            outcome.ranks[context.rank()] = error.what();
            throw;
          }
        },
        options);
  });
  outcome.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  EXPECT_LT(outcome.seconds, 10);
  return outcome;
}

Outcome run_failing(const RankBody& body, const RanksOptions& options = {}) {
  return run_failing(*make_plain_backend(), body, options);
}

void expect_on_every_rank(const Outcome& outcome, const std::string& text) {
  EXPECT_EQ(outcome.thrown, text);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(outcome.ranks[rank], text) << rank;
  }
}

/// The peers of a rank that failed say why, and where they waited.
void expect_on_peers(const Outcome& outcome, int failed, const std::string& reason,
                     const std::string& call) {
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank != failed) {
      EXPECT_EQ(outcome.ranks[rank], fmt::format("[comm] rank {} failed: {}; rank {} waited at {}",
                                                 failed, reason, rank, call));
    }
  }
}

constexpr StreamMode kModes[] = {StreamMode::kImmediate, StreamMode::kLazy};

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
    tag.about = std::make_shared<const std::string>(context.rank() == 0 ? "wte" : "wpe");
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

TEST(Failure, OfARankEndsTheOthersWithItsMessage) {
  for (const StreamMode mode : kModes) {
    const Outcome outcome = run_failing(
        [](RankContext& context, Communicator& communicator) {
          gather(context, communicator, context.communication());
          require(context.rank() != 2, "data", "the file is gone");
          gather(context, communicator, context.communication());
        },
        {.streams = mode});
    EXPECT_EQ(outcome.thrown, "[data] the file is gone");
    expect_on_peers(outcome, 2, "[data] the file is gone", kGather);
  }
}

TEST(Failure, OfUnknownTypeEndsTheOthersToo) {
  Outcome outcome;
  outcome.ranks.resize(kRanks);
  EXPECT_THROW(on_ranks(kRanks,
                        [&](RankContext& context, Communicator& communicator) {
                          if (context.rank() == 2) {
                            throw 7;
                          }
                          outcome.ranks[context.rank()] = error_of(
                              [&] { gather(context, communicator, context.communication()); });
                        }),
               int);
  expect_on_peers(outcome, 2, "an exception of unknown type", kGather);
}

TEST(Failure, KeepsItsType) {
  const RankBody body = [](RankContext& context, Communicator& communicator) {
    if (context.rank() == 1) {
      throw ConfigError("config", "no such key");
    }
    gather(context, communicator, context.compute());
  };
  EXPECT_THROW(on_ranks(3, body), ConfigError);
  EXPECT_THROW(on_ranks(1, [](RankContext&, Communicator&) { throw std::out_of_range("x"); }),
               std::out_of_range);
  EXPECT_THROW(on_ranks(2, [](RankContext&, Communicator&) { throw 7; }), int);
}

TEST(Failure, ReleasesTheRanksOwnWorkerBeforeItIsJoined) {
  // Rank 2's worker waits for peers that never come; its exception unwinds past that worker.
  const Outcome outcome = run_failing([](RankContext& context, Communicator& communicator) {
    if (context.rank() == 2) {
      const Tensor buffer = tensor_of_rank(context, 4096);
      communicator.all_reduce(context.communication(), buffer, 1.0, kGradientTag);
      const AbortOnUnwind abort_on_unwind(communicator);
      throw Error("model", "bad shape");
    }
    std::this_thread::sleep_for(milliseconds(100));
    gather(context, communicator, context.compute());
  });
  EXPECT_EQ(outcome.thrown, "[model] bad shape");
  expect_on_peers(outcome, 2, "[model] bad shape", kGather);
}

TEST(Failure, IsReplacedByItsRanksBetterReasonOnly) {
  LocalGroup group(3);
  EXPECT_EQ(group.failure(), "");
  group.abort(1, "an exception ended it");
  group.abort(2, "rank 1 failed");
  EXPECT_EQ(group.failure(), "rank 1 failed: an exception ended it");
  group.abort(1, "no memory");
  EXPECT_EQ(group.failure(), "rank 1 failed: no memory");
}

TEST(Failure, StaysWithTheGroup) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  LocalGroup group(1);
  group.abort(0, "stopped");
  EXPECT_EQ(error_of([&] {
              run_ranks(group, [&](int) {
                RankContext context({}, *backend);
                const std::unique_ptr<Communicator> communicator = group.communicator(context);
                communicator->barrier();
              });
            }),
            "[comm] rank 0 failed: stopped");
  EXPECT_EQ(error_of([&] { run_ranks(group, [](int) {}); }), "[comm] rank 0 failed: stopped");
}

TEST(Failure, BetweenTransfersNeverFreesMemoryUnderAPeer) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const Outcome outcome = run_failing([&](RankContext& context, Communicator& communicator) {
      const Tensor buffer = tensor_of_rank(context, 40000);
      communicator.all_gather(context.communication(), buffer, kParameterTag);
      if (context.rank() == 1) {
        std::this_thread::sleep_for(std::chrono::microseconds(attempt * 50));
        communicator.abort("stop now");
      }
      // What an engine does in its destructor.
      context.communication().synchronize();
      gather(context, communicator, context.compute());
    });
    EXPECT_EQ(outcome.thrown, "[comm] rank 1 failed: stop now");
  }
}

TEST(Departure, OfARankEndsThoseThatWaitForIt) {
  for (const StreamMode mode : kModes) {
    for (const milliseconds delay : {milliseconds(0), milliseconds(50)}) {
      const Outcome outcome = run_failing(
          [&](RankContext& context, Communicator& communicator) {
            gather(context, communicator, context.compute());
            if (context.rank() == 3) {
              std::this_thread::sleep_for(delay);
              return;
            }
            gather(context, communicator, context.communication());
          },
          {.streams = mode});
      EXPECT_TRUE(outcome.thrown.starts_with("[comm] rank 3 left the group while rank "))
          << outcome.thrown;
      EXPECT_TRUE(outcome.thrown.ends_with(" waits at " + kWholeGather +
                                           "; all ranks must make the same calls"));
      EXPECT_EQ(outcome.ranks[3], "");
      for (const int rank : {0, 1, 2}) {
        EXPECT_EQ(outcome.ranks[rank], outcome.thrown);
      }
    }
  }
}

TEST(Departure, DoesNotOutlastTheRun) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  LocalGroup group(3);
  for (int run = 0; run < 3; ++run) {
    run_ranks(group, [&](int rank) {
      RankContext context({.rank = rank, .world_size = 3}, *backend);
      const std::unique_ptr<Communicator> communicator = group.communicator(context);
      gather(context, *communicator, context.communication());
    });
  }
}

TEST(Silence, EndsByTheTimeoutWithTheMissingRanks) {
  for (const StreamMode mode : kModes) {
    const Outcome outcome = run_failing(
        [](RankContext& context, Communicator& communicator) {
          if (context.rank() == 1 || context.rank() == 3) {
            std::this_thread::sleep_for(milliseconds(900));
          }
          gather(context, communicator, context.communication());
        },
        {.streams = mode, .group = {.timeout_s = 0.3}});
    expect_on_every_rank(
        outcome, "[comm] ranks 1, 3 did not arrive at " + kGather +
                     " within 0.3 s; a rank that is only slow needs a longer comm.timeout_s");
  }
}

// A modelled sleep is far longer than the 10 s that `run_failing` allows.
constexpr LocalOptions kSlowLink = {.timeout_s = 60, .latency_us = 60e6 / (kRanks - 1)};

/// What an engine does before its buffers go.
class Finish {
 public:
  explicit Finish(Stream& stream) : stream_(stream) {}
  ~Finish() {
    error_of([&] { stream_.synchronize(); });
  }

 private:
  Stream& stream_;
};

TEST(ModelledSleep, EndsWhenARankFails) {
  for (const int64_t slice : {8, 4096}) {
    const Outcome outcome = run_failing(
        [&](RankContext& context, Communicator& communicator) {
          const Tensor buffer = tensor_of_rank(context, slice * kRanks);
          const Finish finish(context.communication());
          const AbortOnUnwind abort_on_unwind(communicator);
          communicator.all_gather(context.communication(), buffer, kNormTag);
          std::this_thread::sleep_for(milliseconds(100));
          require(context.rank() != 1, "model", "bad shape");
          context.communication().synchronize();
          gather(context, communicator, context.communication());
        },
        {.group = kSlowLink});
    EXPECT_EQ(outcome.thrown, "[model] bad shape");
    expect_on_peers(outcome, 1, "[model] bad shape", kGather);
  }
}

TEST(ModelledSleep, OfJitterEndsWhenARankFails) {
  const Outcome outcome = run_failing(
      [](RankContext& context, Communicator& communicator) {
        require(context.rank() != 1, "model", "bad shape");
        gather(context, communicator, context.communication());
      },
      {.group = {.timeout_s = 60, .jitter_us = 60e6}});
  EXPECT_EQ(outcome.thrown, "[model] bad shape");
  expect_on_peers(outcome, 1, "[model] bad shape", kGather);
}

TEST(ModelledSleep, IsNoSilenceButAStalledRankIs) {
  const Outcome outcome = run_failing(
      [](RankContext& context, Communicator& communicator) {
        // Lasts longer than the timeout.
        gather(context, communicator, context.communication());
        gather(context, communicator, context.communication());
        if (context.rank() == 1) {
          std::this_thread::sleep_for(milliseconds(900));
        }
        gather(context, communicator, context.communication());
      },
      {.group = {.timeout_s = 0.3, .latency_us = 400e3 / (kRanks - 1)}});
  expect_on_every_rank(outcome, "[comm] rank 1 did not arrive at " + kGather +
                                    " within 0.3 s; a rank that is only slow needs a longer "
                                    "comm.timeout_s");
}

/// Its second sum fails.
class FailingBackend final : public PlainBackend {
 public:
  void reduce_in_order(std::span<const std::byte* const> sources, DType dtype, double divisor,
                       std::span<std::byte> out) override {
    require(++sums_ != 2, "backend", "no memory");
    PlainBackend::reduce_in_order(sources, dtype, divisor, out);
  }

 private:
  std::atomic<int> sums_ = 0;
};

TEST(KernelFailure, WithinACollectiveEndsAllRanks) {
  for (const int64_t numel : {8, 40000}) {  // moved by the last rank, and by each
    FailingBackend backend;
    const Outcome outcome =
        run_failing(backend, [&](RankContext& context, Communicator& communicator) {
          const Tensor buffer = tensor_of_rank(context, numel);
          communicator.all_reduce(context.communication(), buffer, 1.0, kNormTag);
          context.communication().synchronize();
        });
    for (const std::string& text : outcome.ranks) {
      EXPECT_NE(text.find("failed: [backend] no memory in all_reduce(parameter, bucket 2: "
                          "h.0.ln_1.weight … h.0.ln_1.bias)"),
                std::string::npos)
          << text;
    }
  }
}

}  // namespace
}  // namespace zerolab

#pragma once

#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/comm/ranks.h"

namespace zerolab {

inline constexpr int kRanks = 4;

inline const CommTag kNormTag = {
    Purpose::kParameter, 2, std::make_shared<const std::string>("h.0.ln_1.weight … h.0.ln_1.bias")};
inline const std::string kGather =
    "all_gather(parameter, bucket 2: h.0.ln_1.weight … h.0.ln_1.bias)";
inline const std::string kWholeGather =
    "all_gather(parameter, bucket 2: h.0.ln_1.weight … h.0.ln_1.bias, 128 bytes of fp32)";

inline void gather(RankContext& context, Communicator& communicator, Stream& stream) {
  const Tensor buffer = tensor_of_rank(context, 8 * communicator.size());
  communicator.all_gather(stream, buffer, kNormTag);
  stream.synchronize();
}

struct Outcome {
  std::string thrown;              ///< by run_ranks
  std::vector<std::string> ranks;  ///< by each rank
  double seconds = 0;
};

inline Outcome run_failing(const RankBody& body, const RanksOptions& options = {},
                           Backend* backend = nullptr) {
  Outcome outcome;
  outcome.ranks.resize(kRanks);
  const Clock::time_point begin = Clock::now();
  outcome.thrown = error_of([&] {
    on_ranks(
        kRanks,
        [&](RankContext& context, Communicator& communicator) {
          try {
            body(context, communicator);
          } catch (const std::exception& error) {
            outcome.ranks[context.rank()] = error.what();
            throw;
          }
        },
        options, backend);
  });
  outcome.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  EXPECT_LT(outcome.seconds, 10);
  return outcome;
}

inline void expect_on_every_rank(const Outcome& outcome, const std::string& text) {
  EXPECT_EQ(outcome.thrown, text);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(outcome.ranks[rank], text) << rank;
  }
}

/// The peers of a rank that failed say why, and where they waited.
inline void expect_on_peers(const Outcome& outcome, int failed, const std::string& reason,
                            const std::string& call) {
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank != failed) {
      EXPECT_EQ(outcome.ranks[rank], fmt::format("[comm] rank {} failed: {}; rank {} waited at {}",
                                                 failed, reason, rank, call));
    }
  }
}

}  // namespace zerolab

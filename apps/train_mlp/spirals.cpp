#include "apps/train_mlp/spirals.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>

#include "framework/comm/local.h"
#include "framework/core/error.h"
#include "framework/core/philox.h"
#include "framework/onednn/backend.h"
#include "framework/ops/cross_entropy.h"
#include "framework/plain/backend.h"
#include "models/mlp.h"
#include "optim/schedule.h"
#include "zero/engine.h"

namespace zerolab::app {
namespace {

constexpr double kTurns = 1.75;
constexpr double kNoise = 0.01;  // half the spirals' distance is 0.14
constexpr int64_t kTestPoints = 2000;
constexpr int64_t kFirstTestPoint = int64_t{1} << 40;  // beyond every point that is trained on

struct Points {
  Tensor positions;  ///< [n, 2]
  Tensor spirals;    ///< [n] int32, 0 or 1
  std::vector<int32_t> host_spirals;
};

/// Points `first`, `first + 1`, …: each is the same on whatever rank it is made.
Points make_points(RankContext& context, uint64_t seed, int64_t first, int64_t count) {
  std::vector<float> positions;
  std::vector<int32_t> spirals;
  for (int64_t i = first; i < first + count; ++i) {
    const auto bits = philox(seed, static_cast<uint64_t>(i), 0);
    const auto spiral = static_cast<int32_t>(bits[0] & 1);
    // The root spreads the points evenly over the arm's length.
    const double along = 0.05 + 0.95 * std::sqrt(uniform_from_bits(bits[1]));
    const double angle = std::numbers::pi * (2.0 * kTurns * along + spiral);
    positions.push_back(static_cast<float>(along * std::cos(angle) +
                                           kNoise * (2.0 * uniform_from_bits(bits[2]) - 1.0)));
    positions.push_back(static_cast<float>(along * std::sin(angle) +
                                           kNoise * (2.0 * uniform_from_bits(bits[3]) - 1.0)));
    spirals.push_back(spiral);
  }
  return {Tensor::from_host(context, Shape{count, 2}, std::span<const float>(positions)),
          Tensor::from_host(context, Shape{count}, std::span<const int32_t>(spirals)), spirals};
}

double accuracy_of(RankContext& context, const Mlp& model, uint64_t seed) {
  const NoGradScope no_grad(context);
  const Points points = make_points(context, seed, kFirstTestPoint, kTestPoints);
  const std::vector<float> logits = model.forward(points.positions).to_host<float>();
  int64_t right = 0;
  for (int64_t i = 0; i < kTestPoints; ++i) {
    const int32_t predicted = logits[2 * i + 1] > logits[2 * i] ? 1 : 0;
    right += predicted == points.host_spirals[i] ? 1 : 0;
  }
  return static_cast<double>(right) / kTestPoints;
}

void train_rank(const SpiralOptions& options, RankContext& context, Communicator& communicator,
                const std::function<void(const SpiralReport&)>& report, SpiralResult& result) {
  const auto seed = static_cast<uint64_t>(options.seed);
  const Mlp model({.context = context, .seed = seed, .name = ""}, {2, 64, 64, 2});
  const auto optimizer = optim::make_optimizer({.name = "adamw", .weight_decay = 1e-3});
  const optim::ScheduleOptions schedule{.name = "cosine",
                                        .warmup_steps = 0,
                                        .total_steps = options.steps,
                                        .learning_rate = options.learning_rate};
  zero::Engine engine(context, communicator, model.parameters(), *optimizer,
                      {.stage = options.stage,
                       .reduce_bucket_size = options.reduce_bucket_size,
                       .overlap_comm = options.overlap_comm});
  const AbortOnUnwind abort_on_unwind(communicator);

  const int64_t rows = options.batch_size / options.ranks;
  for (int64_t step = 0; step < options.steps; ++step) {
    const Points points =
        make_points(context, seed, (step * options.ranks + context.rank()) * rows, rows);
    engine.begin_micro_batch();
    engine.backward(ops::cross_entropy(model.forward(points.positions), points.spirals));
    engine.end_micro_batch();
    const zero::StepResult done =
        engine.step({.learning_rate = optim::learning_rate(schedule, step)});
    if (context.rank() == 0) {
      result.losses.push_back(done.loss);
      if ((step + 1) % options.report_every == 0 || step + 1 == options.steps) {
        result.accuracy = accuracy_of(context, model, seed);
        report({step + 1, done.loss, result.accuracy});
      }
    }
  }
  engine.wait_for_parameters();
  if (context.rank() == 0) {
    for (const Parameter* parameter : model.parameters()) {
      const std::vector<float> values = parameter->value().to_host<float>();
      result.weights.insert(result.weights.end(), values.begin(), values.end());
    }
  }
}

std::unique_ptr<Backend> make_backend(const std::string& name) {
  const bool fast = name == "onednn" || (name == "auto" && onednn_is_available());
  return fast ? make_onednn_backend() : make_plain_backend();
}

template <typename T>
void check_range(const char* name, T value, T least, T most) {
  if (value < least || value > most) {
    throw ConfigError("train-mlp",
                      fmt::format("--{}; got {}, expected {} to {}", name, value, least, most));
  }
}

}  // namespace

void SpiralOptions::check() const {
  constexpr int64_t kMost = 1'000'000'000;
  check_range("stage", stage, 0, zero::kLastStage);
  check_range("ranks", ranks, 1, 256);
  check_range<int64_t>("steps", steps, 1, kMost);
  check_range<int64_t>("batch-size", batch_size, 1, 1'000'000);
  check_range<int64_t>("bucket-size", reduce_bucket_size, 0, kMost);
  check_range("lr", learning_rate, 0.0, 1e3);
  check_range<int64_t>("seed", seed, 0, std::numeric_limits<int64_t>::max());
  check_range<int64_t>("report-every", report_every, 1, kMost);
  if (batch_size % ranks != 0) {
    throw ConfigError("train-mlp",
                      fmt::format("--batch-size does not divide among the ranks; got {}, expected "
                                  "a multiple of --ranks {}",
                                  batch_size, ranks));
  }
  if (backend != "auto" && backend != "onednn" && backend != "plain") {
    throw ConfigError("train-mlp",
                      fmt::format("--backend; got {}, expected auto, onednn or plain", backend));
  }
}

SpiralResult train_spirals(const SpiralOptions& options,
                           const std::function<void(const SpiralReport&)>& report) {
  options.check();
  const std::unique_ptr<Backend> backend = make_backend(options.backend);
  LocalGroup group(options.ranks);
  SpiralResult result;
  run_ranks(group, [&](int rank) {
    RankContext context({.rank = rank, .world_size = options.ranks}, *backend);
    const std::unique_ptr<Communicator> communicator = group.communicator(context);
    train_rank(options, context, *communicator, report, result);
  });
  return result;
}

}  // namespace zerolab::app

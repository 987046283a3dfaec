#include "tests/spine/equivalence/harness.h"

#include <cstring>
#include <numeric>

#include "framework/comm/local.h"
#include "framework/comm/meta.h"
#include "framework/core/error.h"
#include "framework/core/philox.h"
#include "framework/meta/backend.h"
#include "framework/onednn/backend.h"
#include "framework/ops/mse.h"
#include "framework/plain/backend.h"
#include "models/gpt.h"
#include "models/mlp.h"

namespace zerolab::test {
namespace {

constexpr uint64_t kDataKey = 99;

template <typename T>
std::string first_difference(const char* what, const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) {
    return fmt::format("{}: {} against {} values", what, a.size(), b.size());
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0) {
      return fmt::format("{}[{}]: {:.9g} against {:.9g}", what, i, a[i], b[i]);
    }
  }
  return "";
}

RankOptions options_of(const RunSetup& setup, int rank) {
  return {.rank = rank,
          .world_size = setup.world_size,
          .threads = 1,
          .memory_limit = setup.memory_limit,
          .poison = setup.debug.poison,
          .streams = setup.streams,
          .lazy_seed = setup.lazy_seed * 1000 + rank};
}

void on_engine(RankContext& context, Communicator& communicator, const ModelFactory& factory,
               const RunSetup& setup, const std::function<void(EngineRank&)>& body) {
  const TestModel model = factory(context);
  const auto optimizer = optim::make_optimizer(setup.optimizer);
  zero::Engine engine(context, communicator, model.module->parameters(), *optimizer, setup.engine,
                      setup.debug);
  const AbortOnUnwind abort_on_unwind(communicator);
  EngineRank rank = {context, communicator, model, engine};
  body(rank);
}

Outcome run_rank(EngineRank& rank, const RunSetup& setup) {
  Outcome outcome;
  const auto inspect = [&](int step) {
    if (setup.inspect) {
      setup.inspect(rank.context, rank.communicator, rank.engine, step);
    }
  };
  inspect(0);
  for (int step = 0; step < setup.steps; ++step) {
    rank.accumulate(setup, step);
    const zero::StepResult result = rank.engine.step({.learning_rate = setup.learning_rate});
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(result.gradient_norm);
    inspect(step + 1);
  }
  rank.engine.wait_for_parameters();
  outcome.weights = weights_of(rank.model.module->parameters());
  return outcome;
}

}  // namespace

std::unique_ptr<Backend> fast_backend() {
  return onednn_is_available() ? make_onednn_backend() : make_plain_backend();
}

ModelFactory tiny_gpt(bool tied, DType dtype) {
  return [tied, dtype](RankContext& context) {
    constexpr int64_t kBlock = 6;
    constexpr int64_t kVocab = 19;
    auto gpt =
        std::make_unique<Gpt>(nn::Scope{.context = context, .seed = 5, .dtype = dtype, .name = ""},
                              GptConfig{.n_layer = 2,
                                        .n_head = 2,
                                        .n_embd = 12,
                                        .block_size = kBlock,
                                        .vocab_size = kVocab,
                                        .tie_weights = tied});
    const Gpt* model = gpt.get();
    return TestModel{
        std::move(gpt), [model](RankContext& rank, int64_t first_sample, int64_t rows) {
          std::vector<int32_t> tokens(rows * (kBlock + 1));
          for (size_t i = 0; i < tokens.size(); ++i) {
            tokens[i] = static_cast<int32_t>(
                philox(kDataKey, first_sample + static_cast<int64_t>(i) / (kBlock + 1),
                       i % (kBlock + 1))[0] %
                kVocab);
          }
          std::vector<int32_t> inputs;
          std::vector<int32_t> targets;
          for (int64_t row = 0; row < rows; ++row) {
            const auto begin = tokens.begin() + row * (kBlock + 1);
            inputs.insert(inputs.end(), begin, begin + kBlock);
            targets.insert(targets.end(), begin + 1, begin + 1 + kBlock);
          }
          const Shape shape = {rows, kBlock};
          return model->loss(Tensor::from_host(rank, shape, std::span<const int32_t>(inputs)),
                             Tensor::from_host(rank, shape, std::span<const int32_t>(targets)), {});
        }};
  };
}

ModelFactory tiny_mlp(std::vector<int64_t> sizes) {
  return [sizes](RankContext& context) {
    auto mlp = std::make_unique<Mlp>(nn::Scope{.context = context, .seed = 5, .name = ""}, sizes);
    const Mlp* model = mlp.get();
    return TestModel{
        std::move(mlp), [model, sizes](RankContext& rank, int64_t first_sample, int64_t rows) {
          const auto points = [&](uint64_t key, int64_t width) {
            std::vector<float> values(rows * width);
            for (size_t i = 0; i < values.size(); ++i) {
              values[i] = uniform_from_bits(philox(
                              key, first_sample + static_cast<int64_t>(i) / width, i % width)[0]) -
                          0.5F;
            }
            return Tensor::from_host(rank, Shape{rows, width}, std::span<const float>(values));
          };
          const Tensor x = points(kDataKey, sizes.front());
          return ops::mse(model->forward(x), points(kDataKey + 1, sizes.back()));
        }};
  };
}

std::vector<float> weights_of(const std::vector<Parameter*>& parameters) {
  std::vector<float> weights;
  for (const Parameter* parameter : parameters) {
    RankContext& context = parameter->value().context();
    const Tensor wide = Tensor::empty(context, parameter->shape(), DType::kFloat32);
    context.backend().copy(context.compute(), parameter->value(), wide);
    const std::vector<float> values = wide.to_host<float>();
    weights.insert(weights.end(), values.begin(), values.end());
  }
  return weights;
}

std::string RunSetup::to_string() const {
  return fmt::format(
      "N {}, k {}, stage {}, {} layout, reduce_scatter {}, contiguous_gradients {}, bucket {}, "
      "overlap {}, each micro-batch {}, clip {}, alignment {}, poison {}, {} streams with seed {}",
      world_size, engine.gradient_accumulation_steps, engine.stage,
      engine.layout == zero::LayoutKind::kBucketed ? "bucketed" : "contiguous",
      engine.reduce_scatter, engine.contiguous_gradients, engine.reduce_bucket_size,
      engine.overlap_comm, engine.reduce_each_micro_batch, engine.gradient_clipping,
      engine.alignment, debug.poison, streams == StreamMode::kLazy ? "lazy" : "immediate",
      lazy_seed);
}

void EngineRank::accumulate(const RunSetup& setup, int64_t step) {
  const int64_t k = setup.engine.gradient_accumulation_steps;
  for (int64_t m = 0; m < k; ++m) {
    engine.begin_micro_batch();
    const int64_t first =
        ((step * k + m) * communicator.size() + communicator.rank()) * setup.micro_batch;
    engine.backward(model.loss(context, first, setup.micro_batch));
    engine.end_micro_batch();
  }
}

void on_engines(Backend& backend, const ModelFactory& model, const RunSetup& setup,
                const std::function<void(EngineRank&)>& body) {
  const std::unique_ptr<RankGroup> group =
      setup.make_group ? setup.make_group(setup)
                       : std::make_unique<LocalGroup>(setup.world_size,
                                                      LocalOptions{.timeout_s = setup.timeout_s});
  run_ranks(*group, [&](int rank) {
    RankContext context(options_of(setup, rank), backend);
    const std::unique_ptr<Communicator> plain = group->communicator(context);
    const std::unique_ptr<Communicator> wrapped =
        setup.wrap_communicator ? setup.wrap_communicator(context, *plain) : nullptr;
    on_engine(context, wrapped == nullptr ? *plain : *wrapped, model, setup, body);
  });
}

void on_meta_engine(const Backend& imitated, const ModelFactory& model, const RunSetup& setup,
                    int rank, const std::function<void(EngineRank&)>& body) {
  const std::unique_ptr<Backend> meta = make_meta_backend(imitated);
  RankContext context(options_of(setup, rank), *meta);
  const std::unique_ptr<Communicator> communicator = make_meta_communicator(context);
  on_engine(context, *communicator, model, setup, body);
}

Outcome run(Backend& backend, const ModelFactory& model, const RunSetup& setup) {
  std::vector<Outcome> outcomes(setup.world_size);
  on_engines(backend, model, setup,
             [&](EngineRank& rank) { outcomes[rank.communicator.rank()] = run_rank(rank, setup); });
  for (int rank = 1; rank < setup.world_size; ++rank) {
    const std::string found = difference(outcomes[rank], outcomes[0]);
    require(found.empty(), "test", "rank {} differs from rank 0: {}; {}", rank, found,
            setup.to_string());
  }
  return outcomes[0];
}

std::string difference(const Outcome& a, const Outcome& b) {
  std::string found = first_difference("loss", a.losses, b.losses);
  found = found.empty() ? first_difference("norm", a.norms, b.norms) : found;
  return found.empty() ? first_difference("weight", a.weights, b.weights) : found;
}

}  // namespace zerolab::test

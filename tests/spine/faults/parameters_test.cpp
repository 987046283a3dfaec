#include <gtest/gtest.h>

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "framework/comm/local.h"
#include "framework/core/error.h"
#include "framework/plain/backend.h"
#include "tests/spine/faults/variants.h"
#include "zero/cost_model.h"

namespace zerolab::test {
namespace {

std::vector<float> values_of(const Parameter& parameter) {
  return parameter.value().to_host<float>();
}

const Parameter& named(const TestModel& model, std::string_view name) {
  return **std::ranges::find_if(model.module->parameters(),
                                [&](const Parameter* p) { return p->name() == name; });
}

/// Gradients of the embedding's two uses, each by itself, by plain training of an untied model
/// whose output layer starts as a copy of its embedding; and the embedding.
struct TwoUses {
  std::vector<float> start;
  std::vector<float> as_embedding;
  std::vector<float> as_output;
};

TwoUses separate_uses(Backend& backend, int64_t global_batch) {
  RankContext context({.threads = 1}, backend);
  const TestModel model = tiny_gpt(false)(context);
  const Parameter& embedding = named(model, "wte.weight");
  const Parameter& output = named(model, "lm_head.weight");
  backend.copy(context.compute(), embedding.value(), output.value());
  const Tensor loss = model.loss(context, 0, global_batch);
  const Tensor seed = Tensor::empty_like(loss);
  backend.fill(context.compute(), seed, 1.0);
  autograd::backward(loss, seed);
  return {values_of(embedding), embedding.gradient().to_host<float>(),
          output.gradient().to_host<float>()};
}

TEST(Faults, Row25_ATiedParameterIsOneAndLearnsFromBothUses) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  const TwoUses expected = separate_uses(*backend, 4);
  RunSetup base = exact_setup(4);
  base.learning_rate = 0.5;
  base.engine.alignment = 16;  // so that ranks share the embedding
  base.engine.reduce_bucket_size = 333;
  for (const RunSetup& setup : stages_of(base)) {
    on_engines(*backend, tiny_gpt(true), setup, [&](EngineRank& rank) {
      const zero::Layout& layout = rank.engine.layout();
      std::set<int> owners;
      for (int owner = 0; owner < 4; ++owner) {
        for (const zero::Segment& segment : layout.segments(owner)) {
          if (layout.parameters()[segment.parameter].name == "wte.weight") {
            owners.insert(owner);
          }
        }
      }
      if (setup.engine.layout == zero::LayoutKind::kBucketed) {
        EXPECT_EQ(owners.size(), 4U);  // cut by every partition boundary
      }
      EXPECT_EQ(std::ranges::count_if(
                    layout.parameters(),
                    [](const zero::LayoutParameter& p) { return p.name == "lm_head.weight"; }),
                0);
      rank.accumulate(setup, 0);
      rank.engine.step({.learning_rate = 0.5});
      rank.engine.wait_for_parameters();
      const std::vector<float> tied = values_of(named(rank.model, "wte.weight"));
      double moved_by_both = 0.0;
      for (size_t i = 0; i < tied.size(); ++i) {
        const float sum = expected.as_embedding[i] + expected.as_output[i];
        ASSERT_NEAR(tied[i], expected.start[i] - 0.5F * sum, 1e-6F) << setup.to_string();
        moved_by_both += std::abs(expected.as_embedding[i] * expected.as_output[i]);
      }
      EXPECT_GT(moved_by_both, 0.0);
    });
  }
}

TEST(Faults, Row26_FrozenParametersTakePartInNothing) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  const std::vector<int64_t> sizes = {30, 500, 7, 100, 64};
  for (const std::set<int>& frozen : {std::set<int>{0}, {1}, {4}, {0, 2, 3}}) {
    ExactModel model = {.shapes = flat_shapes(sizes)};
    model.frozen = frozen;
    int64_t trained = 0;
    for (int p = 0; p < 5; ++p) {
      trained += frozen.contains(p) ? 0 : sizes[p];
    }
    RunSetup base = exact_setup(3, 2);
    base.engine.reduce_bucket_size = 100;
    base.inspect = [&](RankContext&, Communicator&, zero::Engine& engine, int) {
      EXPECT_EQ(engine.layout().num_params(), trained);
    };
    expect_exact(model, base);
  }
}

TEST(Faults, Row26_AFrozenEmbeddingHasNoDecayGradientStateOrCommunication) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  const ModelFactory frozen_gpt = [](RankContext& context) {
    TestModel model = tiny_gpt(true)(context);
    const_cast<Parameter&>(named(model, "wte.weight")).set_frozen(true);
    return model;
  };
  RunSetup base;
  base.world_size = 3;
  base.optimizer.weight_decay = 0.5;
  base.engine.reduce_bucket_size = 333;
  for (const RunSetup& setup : stages_of(base)) {
    on_engines(*backend, frozen_gpt, setup, [&](EngineRank& rank) {
      const Parameter& embedding = named(rank.model, "wte.weight");
      const Parameter& other = named(rank.model, "wpe.weight");
      const std::vector<float> before = values_of(embedding);
      const std::vector<float> other_before = values_of(other);
      rank.communicator.ledger().reset();
      rank.accumulate(setup, 0);
      rank.engine.step({.learning_rate = 0.1});
      rank.engine.wait_for_parameters();
      rank.context.communication().synchronize();
      EXPECT_EQ(values_of(embedding), before) << setup.to_string();
      EXPECT_NE(values_of(other), other_before);
      EXPECT_FALSE(embedding.gradient().defined());
      const zero::Layout& layout = rank.engine.layout();
      for (const zero::LayoutParameter& parameter : layout.parameters()) {
        EXPECT_NE(parameter.name, "wte.weight");
      }
      for (const Tensor& state : rank.engine.optimizer().states()) {
        EXPECT_EQ(state.numel(),
                  setup.engine.stage == 0 ? layout.flat_numel() : layout.partition_numel());
      }
      const CommunicationLedger& ledger = rank.communicator.ledger();
      const zero::CommunicationBytes predicted =
          zero::communication_bytes(layout, rank.engine.plan(), rank.communicator.rank());
      EXPECT_EQ(ledger.bytes_sent(Purpose::kGradient), predicted.gradients);
      EXPECT_EQ(ledger.bytes_sent(Purpose::kParameter), predicted.parameters);
    });
  }
}

/// Still one parameter after the state has moved to other ranks and back.
TEST(Faults, Row25_ATiedParameterIsStillOneAfterStageSwitches) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  RunSetup setup;
  setup.world_size = 4;
  setup.steps = 4;
  setup.engine.alignment = 16;
  const Outcome expected = run(*backend, tiny_gpt(true), setup);
  setup.inspect = [](RankContext&, Communicator&, zero::Engine& engine, int step) {
    engine.set_stage(step % 3);
  };
  EXPECT_EQ(difference(run(*backend, tiny_gpt(true), setup), expected), "");
}

/// Parameter 1 frozen during steps 3 and 4 of 6, parameter 2 from the start to step 3: neither
/// moves while frozen, both learn exactly what their own steps say.
TEST(Faults, Row26_FreezingAndUnfreezingLater) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  for (RunSetup setup : stages_of(exact_setup(3))) {
    ExactModel model = {.shapes = flat_shapes({30, 500, 64, 0, 7})};
    model.frozen = {2};
    setup.engine.reduce_bucket_size = 100;
    std::vector<std::vector<float>> history;  // rank 0's weights after each step
    on_engines(*backend, model.factory(), setup, [&](EngineRank& rank) {
      const std::vector<Parameter*>& parameters = rank.model.module->parameters();
      const auto remember = [&] {
        rank.engine.wait_for_parameters();
        if (rank.communicator.rank() == 0) {
          history.push_back(weights_of(parameters));
        }
      };
      remember();
      for (int step = 0; step < 6; ++step) {
        if (step == 2 || step == 4) {
          parameters[1]->set_frozen(step == 2);
          rank.engine.refresh_parameters();
        }
        if (step == 3) {
          parameters[2]->set_frozen(false);
          EXPECT_THROW(rank.engine.begin_micro_batch(), Error);  // not before the refresh
          rank.engine.refresh_parameters();
        }
        EXPECT_EQ(rank.engine.plan().stage, setup.engine.stage);
        EXPECT_EQ(rank.engine.layout().num_params(),
                  601 - (step == 2 || step == 3 ? 500 : 0) - (step < 3 ? 64 : 0));
        rank.accumulate(setup, step);
        rank.engine.step({.learning_rate = setup.learning_rate});
        remember();
      }
    });
    const auto gradient = [&](int step, int parameter, int64_t element) {
      double sum = 0.0;
      for (int r = 0; r < 3; ++r) {
        sum += model.coefficient(3 * step + r, parameter, element);
      }
      return sum / 3.0;
    };
    for (int step = 0; step < 6; ++step) {
      int64_t at = 0;
      for (int p = 0; p < 5; ++p) {
        const bool frozen = (p == 1 && (step == 2 || step == 3)) || (p == 2 && step < 3);
        for (int64_t i = 0; i < model.shapes[p].numel(); ++i, ++at) {
          const double moved = frozen ? 0.0 : setup.learning_rate * gradient(step, p, i);
          ASSERT_EQ(history[step + 1][at], static_cast<float>(history[step][at] - moved))
              << setup.to_string() << ", step " << step << ", p" << p << "[" << i << "]";
        }
      }
    }
  }
}

/// What stays trainable keeps its optimizer state over a refresh.
TEST(Faults, Row26_UnfreezingKeepsTheStateOfTheOthers) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  const ExactModel model = {.shapes = flat_shapes({40, 300})};
  ExactModel frozen = model;
  frozen.frozen = {1};
  RunSetup setup = exact_setup(3);
  setup.steps = 5;
  setup.optimizer = {.name = "sgd", .momentum = 0.5};
  const std::vector<float> expected = run(*backend, frozen.factory(), setup).weights;
  for (RunSetup stage : stages_of(setup)) {
    std::vector<float> weights;
    on_engines(*backend, frozen.factory(), stage, [&](EngineRank& rank) {
      Parameter& second = *rank.model.module->parameters()[1];
      for (int step = 0; step < 5; ++step) {
        if (step == 2) {
          second.set_frozen(false);
          rank.engine.refresh_parameters();
        }
        rank.accumulate(stage, step);
        rank.engine.step({.learning_rate = stage.learning_rate});
      }
      rank.engine.wait_for_parameters();
      if (rank.communicator.rank() == 0) {
        weights = weights_of({rank.model.module->parameters()[0]});
      }
      EXPECT_NE(values_of(second)[0], 1.0F);
    });
    EXPECT_EQ(weights, std::vector<float>(expected.begin(), expected.begin() + 40))
        << stage.to_string();
  }
}

/// One dtype, or a refusal before anything is allocated that names both.
TEST(Faults, Row27_ParametersOfTwoDtypesAreRefused) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  RankContext context({}, *backend);
  LocalGroup group(1);
  const std::unique_ptr<Communicator> communicator = group.communicator(context);
  Parameter wide("wide", Tensor::zeros(context, Shape{3}, DType::kFloat32));
  Parameter narrow("narrow", Tensor::zeros(context, Shape{3}, DType::kBFloat16));
  const auto optimizer = optim::make_optimizer({});
  try {
    zero::Engine(context, *communicator, {&wide, &narrow}, *optimizer, {});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("wide of fp32 and narrow of bf16"), std::string::npos)
        << error.what();
  }
}

TEST(Faults, Row26_AModelWithNothingToTrainIsRefused) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  ExactModel model = {.shapes = flat_shapes({3})};
  model.frozen = {0};
  EXPECT_THROW(run(*backend, model.factory(), exact_setup(2)), std::exception);
}

/// Frozen on one rank only: another layout, which is found before the first step.
TEST(Faults, Row26_RanksThatFreezeDifferentlyAreRefused) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  const ModelFactory factory = [](RankContext& context) {
    ExactModel model = {.shapes = flat_shapes({3, 5})};
    if (context.rank() == 1) {
      model.frozen = {0};
    }
    return model.factory()(context);
  };
  for (const RunSetup& setup : stages_of(exact_setup(3))) {
    try {
      run(*backend, factory, setup);
      FAIL() << setup.to_string();
    } catch (const std::exception& error) {
      EXPECT_NE(std::string(error.what())
                    .find("the layout (of model, world size, reduce_bucket_size and frozen "
                          "parameters) on rank"),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace zerolab::test

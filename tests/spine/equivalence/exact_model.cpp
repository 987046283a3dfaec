#include "tests/spine/equivalence/exact_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "framework/core/philox.h"
#include "framework/kernels/weight_layout.h"
#include "framework/ops/elementwise.h"
#include "framework/tensor/backend.h"

namespace zerolab::test {
namespace {

class ExactModule final : public nn::Module {
 public:
  ExactModule(const nn::Scope& scope, const ExactModel& model) : Module(scope) {
    for (size_t i = 0; i < model.shapes.size(); ++i) {
      const int index = static_cast<int>(i);
      add_parameter(scope, fmt::format("p{}", i), model.shapes[i], nn::Init::ones(),
                    model.used_twice.contains(index))
          .set_frozen(model.frozen.contains(index));
    }
  }
};

/// Σ of coefficients × parameter, one element.
Tensor weighted_sum(const Tensor& parameter, const Tensor& coefficients, const ExactModel& model) {
  RankContext& context = autograd::begin_op("weighted_sum", {parameter});
  const Tensor out = Tensor::empty(context, Shape{1}, parameter.dtype());
  const Shape row = {1, parameter.numel()};
  context.backend().linear_forward(context.compute(), parameter.detached().view(row), coefficients,
                                   WeightLayout::kInOut, Tensor(), out.view(Shape{1, 1}));
  return autograd::record("weighted_sum", out, {parameter},
                          [coefficients, row, hook = model.during_backward](
                              const Tensor& dy, autograd::Gradients& gradients) {
                            RankContext& rank = dy.context();
                            const autograd::Destination destination = gradients.destination(0);
                            if (hook) {
                              hook(rank, destination);
                            }
                            rank.backend().linear_backward_input(
                                rank.compute(), dy.view(Shape{1, 1}), coefficients,
                                WeightLayout::kInOut, destination.tensor.view(row),
                                destination.accumulate);
                          });
}

std::vector<int> terms_of(const ExactModel& model, int rank, int64_t index) {
  if (model.terms) {
    return model.terms(rank, index);
  }
  std::vector<int> all(model.shapes.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

double mean_coefficient(const ExactModel& model, int64_t first_sample, int64_t rows, int parameter,
                        int64_t element) {
  double sum = 0.0;
  for (int64_t row = 0; row < rows; ++row) {
    sum += model.coefficient(first_sample + row, parameter, element);
  }
  return sum / static_cast<double>(rows);
}

}  // namespace

ModelFactory ExactModel::factory() const {
  return [model = *this](RankContext& context) {
    auto module = std::make_unique<ExactModule>(
        nn::Scope{.context = context, .dtype = model.dtype, .name = ""}, model);
    const std::vector<Parameter*> parameters = module->parameters();
    return TestModel{
        std::move(module),
        [model, parameters](RankContext& rank, int64_t first_sample, int64_t rows) {
          const int64_t index = first_sample / (rows * rank.world_size());
          Tensor loss;
          for (const int p : terms_of(model, rank.rank(), index)) {
            std::vector<float> means(parameters[p]->numel());
            for (size_t i = 0; i < means.size(); ++i) {
              means[i] = static_cast<float>(mean_coefficient(model, first_sample, rows, p, i));
            }
            const Shape column = {parameters[p]->numel(), 1};
            const Tensor coefficients = Tensor::empty(rank, column, model.dtype);
            rank.backend().copy(rank.compute(),
                                Tensor::from_host(rank, column, std::span<const float>(means)),
                                coefficients);
            const Tensor term = weighted_sum(parameters[p]->tensor(), coefficients, model);
            loss = loss.defined() ? ops::add(loss, term) : term;
          }
          return loss;
        }};
  };
}

std::function<double(int64_t, int, int64_t)> ExactModel::multiples_of(int64_t unit) {
  return [unit](int64_t sample, int parameter, int64_t element) {
    const auto draw = philox(parameter, sample, element)[0];
    return static_cast<double>(unit * (static_cast<int64_t>(draw % 7) - 3));
  };
}

std::vector<Shape> flat_shapes(const std::vector<int64_t>& sizes) {
  std::vector<Shape> shapes;
  for (const int64_t size : sizes) {
    shapes.push_back(Shape{size});
  }
  return shapes;
}

std::vector<float> expected_weights(const ExactModel& model, const RunSetup& setup) {
  const int64_t k = setup.engine.gradient_accumulation_steps;
  std::vector<float> weights;
  for (size_t p = 0; p < model.shapes.size(); ++p) {
    const int parameter = static_cast<int>(p);
    std::vector<double> sums(model.shapes[p].numel());
    for (int64_t index = 0; index < setup.steps * k && !model.frozen.contains(parameter); ++index) {
      for (int rank = 0; rank < setup.world_size; ++rank) {
        const std::vector<int> terms = terms_of(model, rank, index);
        const auto uses = static_cast<double>(std::ranges::count(terms, parameter));
        const int64_t first = (index * setup.world_size + rank) * setup.micro_batch;
        for (size_t i = 0; uses > 0 && i < sums.size(); ++i) {
          sums[i] += uses * mean_coefficient(model, first, setup.micro_batch, parameter, i);
        }
      }
    }
    for (const double sum : sums) {
      const double mean = sum / static_cast<double>(setup.world_size * k);
      weights.push_back(static_cast<float>(1.0 - setup.learning_rate * mean));
    }
  }
  return weights;
}

RunSetup exact_setup(int world_size, int micro_batches) {
  RunSetup setup;
  setup.world_size = world_size;
  setup.micro_batch = 1;
  setup.engine.gradient_accumulation_steps = micro_batches;
  setup.optimizer = {.name = "sgd"};
  setup.learning_rate = 0.0625;
  return setup;
}

}  // namespace zerolab::test

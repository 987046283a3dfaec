#include <algorithm>
#include <array>

#include "framework/plain/kernel.h"
#include "framework/plain/plain_backend.h"
#include "framework/update_rules/update_rule.h"

namespace zerolab {
namespace {

template <typename Rule, typename T>
void update_elements(const Rule rule, float gradient_scale, const T* gradient, float* parameter,
                     const std::array<float*, kNumStates<Rule>> states, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) {
    float numbers[kStateRoom<Rule>];
    for (size_t s = 0; s < states.size(); ++s) {
      numbers[s] = states[s][i];
    }
    rule(static_cast<float>(widened(gradient[i])) * gradient_scale, parameter[i], numbers);
    for (size_t s = 0; s < states.size(); ++s) {
      states[s][i] = numbers[s];
    }
  }
}

}  // namespace

void PlainBackend::update(Stream& stream, const UpdateRule& rule, double gradient_scale,
                          const Tensor& gradient, const Tensor& parameter,
                          std::span<const Tensor> states) {
  std::visit(
      [&]<typename Rule>(const Rule& one) {
        std::array<float*, kNumStates<Rule>> memory;
        std::ranges::transform(states, memory.begin(),
                               [](const Tensor& state) { return state.data<float>(); });
        with_float_type(gradient.dtype(), [&]<typename T>(T) {
          plain::launch(stream, [=, numel = parameter.numel(), gradient = gradient.data<T>(),
                                 parameter = parameter.data<float>(),
                                 scale = static_cast<float>(gradient_scale)] {
            update_elements(one, scale, gradient, parameter, memory, numel);
          });
        });
      },
      rule.rule);
}

}  // namespace zerolab

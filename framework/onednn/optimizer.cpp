#include <algorithm>
#include <array>

#include "framework/onednn/kernel.h"
#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/vector.h"
#include "framework/update_rules/update_rule.h"

namespace zerolab {

template <>
inline onednn::Vector square_root(onednn::Vector x) {
  return onednn::square_root(x);
}

void OnednnBackend::update(Stream& stream, const UpdateRule& rule, double gradient_scale,
                           const Tensor& gradient, const Tensor& parameter,
                           std::span<const Tensor> states) {
  std::visit(
      [&]<typename Rule>(const Rule& one) {
        std::array<float*, kNumStates<Rule>> memory;
        std::ranges::transform(states, memory.begin(), onednn::floats);
        onednn::with_type(gradient.dtype(), [&]<typename T>(T) {
          onednn::launch_chunks(
              stream, parameter.numel(), onednn::kGrain,
              [rule = one, memory, gradient = onednn::elements<T>(gradient),
               parameter = onednn::floats(parameter),
               scale = static_cast<float>(gradient_scale)](int64_t begin, int64_t end) {
                onednn::for_vectors(begin, end, [&](int64_t i, auto lanes) {
                  onednn::Vector numbers[kStateRoom<Rule>];
                  for (size_t s = 0; s < memory.size(); ++s) {
                    numbers[s] = lanes.load(memory[s] + i);
                  }
                  onednn::Vector updated = lanes.load(parameter + i);
                  rule(lanes.load(gradient + i) * scale, updated, numbers);
                  lanes.store(parameter + i, updated);
                  for (size_t s = 0; s < memory.size(); ++s) {
                    lanes.store(memory[s] + i, numbers[s]);
                  }
                });
              });
        });
      },
      rule.rule);
}

}  // namespace zerolab

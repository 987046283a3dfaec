#include <algorithm>

#include "framework/cuda/cuda_backend.h"
#include "framework/cuda/kernel.h"
#include "framework/update_rules/update_rule.h"

namespace zerolab {
namespace {

template <typename Rule, typename T>
struct UpdateElements {
  Rule rule;
  float gradient_scale;
  const T* gradient;
  float* parameter;
  float* states[kStateRoom<Rule>];

  template <int N>
  __device__ void run(int64_t i) const {
    constexpr int kStates = kNumStates<Rule>;
    const auto gradients = cuda::load_pack<N>(gradient + i);
    auto parameters = cuda::load_pack<N>(parameter + i);
    cuda::Pack<float, N> packs[kStateRoom<Rule>];
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      packs[s] = cuda::load_pack<N>(states[s] + i);
    }
#pragma unroll
    for (int lane = 0; lane < N; ++lane) {
      float numbers[kStateRoom<Rule>];
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        numbers[s] = packs[s].lanes[lane];
      }
      rule(cuda::load(gradients.lanes[lane]) * gradient_scale, parameters.lanes[lane], numbers);
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        packs[s].lanes[lane] = numbers[s];
      }
    }
    cuda::store_pack(parameter + i, parameters);
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      cuda::store_pack(states[s] + i, packs[s]);
    }
  }
};

}  // namespace

void CudaBackend::update(Stream& stream, const UpdateRule& rule, double gradient_scale,
                         const Tensor& gradient, const Tensor& parameter,
                         std::span<const Tensor> states) {
  std::visit(
      [&]<typename Rule>(const Rule& one) {
        cuda::with_device_type(gradient.dtype(), [&]<typename T>(T) {
          UpdateElements<Rule, T> body{.rule = one,
                                       .gradient_scale = static_cast<float>(gradient_scale),
                                       .gradient = gradient.data<T>(),
                                       .parameter = parameter.data<float>(),
                                       .states = {}};
          std::ranges::transform(states, body.states,
                                 [](const Tensor& state) { return state.data<float>(); });
          const bool aligned = cuda::are_aligned(body.gradient, body.parameter) &&
                               std::ranges::all_of(body.states, [](float* state) {
                                 return cuda::are_aligned(state);
                               });
          cuda::for_packs<cuda::kLanes<T, float>>(cuda::handle_of(stream), parameter.numel(),
                                                  aligned, body);
        });
      },
      rule.rule);
}

}  // namespace zerolab

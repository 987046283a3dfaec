#include <cmath>

#include "framework/cuda/cuda_backend.h"
#include "framework/cuda/kernel.h"

namespace zerolab {
namespace {

// The order of plain's operations, which IEEE rounds alike on both devices: the same bits.

template <typename T>
struct AdamW {
  const T* gradient;
  float* parameter;
  float* exp_avg;
  float* exp_avg_sq;
  float gradient_scale;
  float decay;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float sqrt_correction2;
  float epsilon;
  float step_size;

  template <int N>
  __device__ void run(int64_t i) const {
    const auto g_pack = cuda::load_pack<N>(gradient + i);
    auto parameters = cuda::load_pack<N>(parameter + i);
    auto averages = cuda::load_pack<N>(exp_avg + i);
    auto squares = cuda::load_pack<N>(exp_avg_sq + i);
    for (int lane = 0; lane < N; ++lane) {
      float& p = parameters.lanes[lane];
      float& m = averages.lanes[lane];
      float& v = squares.lanes[lane];
      const float g = cuda::load(g_pack.lanes[lane]) * gradient_scale;
      m = m + (g - m) * one_minus_beta1;
      v = v * beta2 + one_minus_beta2 * g * g;
      const float denominator = sqrtf(v) / sqrt_correction2 + epsilon;
      p = p * decay - step_size * m / denominator;
    }
    cuda::store_pack(parameter + i, parameters);
    cuda::store_pack(exp_avg + i, averages);
    cuda::store_pack(exp_avg_sq + i, squares);
  }
};

template <typename T>
struct Sgd {
  const T* gradient;
  float* parameter;
  float* momentum_buffer;  ///< or null
  float gradient_scale;
  float weight_decay;
  float momentum;
  float learning_rate;

  template <int N>
  __device__ void run(int64_t i) const {
    const auto g_pack = cuda::load_pack<N>(gradient + i);
    auto parameters = cuda::load_pack<N>(parameter + i);
    cuda::Pack<float, N> steps;
    for (int lane = 0; lane < N; ++lane) {
      steps.lanes[lane] =
          cuda::load(g_pack.lanes[lane]) * gradient_scale + weight_decay * parameters.lanes[lane];
    }
    if (momentum_buffer != nullptr) {
      const auto buffer = cuda::load_pack<N>(momentum_buffer + i);
      for (int lane = 0; lane < N; ++lane) {
        steps.lanes[lane] = buffer.lanes[lane] * momentum + steps.lanes[lane];
      }
      cuda::store_pack(momentum_buffer + i, steps);
    }
    for (int lane = 0; lane < N; ++lane) {
      parameters.lanes[lane] -= learning_rate * steps.lanes[lane];
    }
    cuda::store_pack(parameter + i, parameters);
  }
};

}  // namespace

void CudaBackend::adamw(Stream& stream, const AdamWArguments& arguments, const Tensor& gradient,
                        const Tensor& parameter, const Tensor& exp_avg, const Tensor& exp_avg_sq) {
  const auto step = static_cast<double>(arguments.step);
  const double correction1 = 1.0 - std::pow(arguments.beta1, step);
  const double correction2 = 1.0 - std::pow(arguments.beta2, step);
  cuda::with_device_type(gradient.dtype(), [&]<typename T>(T) {
    const AdamW<T> body{
        .gradient = gradient.data<T>(),
        .parameter = parameter.data<float>(),
        .exp_avg = exp_avg.data<float>(),
        .exp_avg_sq = exp_avg_sq.data<float>(),
        .gradient_scale = static_cast<float>(arguments.gradient_scale),
        .decay = static_cast<float>(1.0 - arguments.learning_rate * arguments.weight_decay),
        .one_minus_beta1 = static_cast<float>(1.0 - arguments.beta1),
        .beta2 = static_cast<float>(arguments.beta2),
        .one_minus_beta2 = static_cast<float>(1.0 - arguments.beta2),
        .sqrt_correction2 = static_cast<float>(std::sqrt(correction2)),
        .epsilon = static_cast<float>(arguments.epsilon),
        .step_size = static_cast<float>(arguments.learning_rate / correction1)};
    cuda::for_packs<cuda::kLanes<T, float>>(
        cuda::handle_of(stream), parameter.numel(),
        cuda::are_aligned(body.gradient, body.parameter, body.exp_avg, body.exp_avg_sq), body);
  });
}

void CudaBackend::sgd(Stream& stream, const SgdArguments& arguments, const Tensor& gradient,
                      const Tensor& parameter, const Tensor& momentum_buffer) {
  cuda::with_device_type(gradient.dtype(), [&]<typename T>(T) {
    const Sgd<T> body{.gradient = gradient.data<T>(),
                      .parameter = parameter.data<float>(),
                      .momentum_buffer = momentum_buffer.data<float>(),
                      .gradient_scale = static_cast<float>(arguments.gradient_scale),
                      .weight_decay = static_cast<float>(arguments.weight_decay),
                      .momentum = static_cast<float>(arguments.momentum),
                      .learning_rate = static_cast<float>(arguments.learning_rate)};
    cuda::for_packs<cuda::kLanes<T, float>>(
        cuda::handle_of(stream), parameter.numel(),
        cuda::are_aligned(body.gradient, body.parameter, body.momentum_buffer), body);
  });
}

}  // namespace zerolab

#include <cmath>

#include "framework/plain/kernel.h"
#include "framework/plain/plain_backend.h"

namespace zerolab {

// Both follow the order of PyTorch's operations; scalars are computed in fp64 and rounded to fp32
// once.

void PlainBackend::adamw(Stream& stream, const AdamWArguments& arguments, const Tensor& gradient,
                         const Tensor& parameter, const Tensor& exp_avg, const Tensor& exp_avg_sq) {
  const auto step = static_cast<double>(arguments.step);
  const double correction1 = 1.0 - std::pow(arguments.beta1, step);
  const double correction2 = 1.0 - std::pow(arguments.beta2, step);
  with_float_type(gradient.dtype(), [&]<typename T>(T) {
    plain::launch(
        stream, [numel = parameter.numel(), gradient = gradient.data<T>(),
                 parameter = parameter.data<float>(), exp_avg = exp_avg.data<float>(),
                 exp_avg_sq = exp_avg_sq.data<float>(),
                 gradient_scale = static_cast<float>(arguments.gradient_scale),
                 decay = static_cast<float>(1.0 - arguments.learning_rate * arguments.weight_decay),
                 one_minus_beta1 = static_cast<float>(1.0 - arguments.beta1),
                 beta2 = static_cast<float>(arguments.beta2),
                 one_minus_beta2 = static_cast<float>(1.0 - arguments.beta2),
                 sqrt_correction2 = static_cast<float>(std::sqrt(correction2)),
                 epsilon = static_cast<float>(arguments.epsilon),
                 step_size = static_cast<float>(arguments.learning_rate / correction1)] {
          for (int64_t i = 0; i < numel; ++i) {
            const float g = static_cast<float>(widened(gradient[i])) * gradient_scale;
            const float m = exp_avg[i] + (g - exp_avg[i]) * one_minus_beta1;
            const float v = exp_avg_sq[i] * beta2 + one_minus_beta2 * g * g;
            const float denominator = std::sqrt(v) / sqrt_correction2 + epsilon;
            exp_avg[i] = m;
            exp_avg_sq[i] = v;
            parameter[i] = parameter[i] * decay - step_size * m / denominator;
          }
        });
  });
}

void PlainBackend::sgd(Stream& stream, const SgdArguments& arguments, const Tensor& gradient,
                       const Tensor& parameter, const Tensor& momentum_buffer) {
  with_float_type(gradient.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [numel = parameter.numel(), gradient = gradient.data<T>(),
                           parameter = parameter.data<float>(),
                           momentum_buffer = momentum_buffer.data<float>(),
                           gradient_scale = static_cast<float>(arguments.gradient_scale),
                           weight_decay = static_cast<float>(arguments.weight_decay),
                           momentum = static_cast<float>(arguments.momentum),
                           learning_rate = static_cast<float>(arguments.learning_rate)] {
      for (int64_t i = 0; i < numel; ++i) {
        float step =
            static_cast<float>(widened(gradient[i])) * gradient_scale + weight_decay * parameter[i];
        if (momentum_buffer != nullptr) {
          step = momentum_buffer[i] * momentum + step;
          momentum_buffer[i] = step;
        }
        parameter[i] -= learning_rate * step;
      }
    });
  });
}

}  // namespace zerolab

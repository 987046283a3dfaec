#include <cmath>

#include "framework/onednn/kernel.h"
#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/vector.h"

namespace zerolab {

using onednn::elements;
using onednn::floats;
using onednn::for_vectors;
using onednn::kGrain;
using onednn::launch_chunks;
using onednn::Vector;
using onednn::with_type;

// The same operations in the same order as plain's, hence the same bits.

void OnednnBackend::adamw(Stream& stream, const AdamWArguments& arguments, const Tensor& gradient,
                          const Tensor& parameter, const Tensor& exp_avg,
                          const Tensor& exp_avg_sq) {
  const auto step = static_cast<double>(arguments.step);
  const double correction1 = 1.0 - std::pow(arguments.beta1, step);
  const double correction2 = 1.0 - std::pow(arguments.beta2, step);
  with_type(gradient.dtype(), [&]<typename T>(T) {
    launch_chunks(
        stream, parameter.numel(), kGrain,
        [gradient = elements<T>(gradient), parameter = floats(parameter), exp_avg = floats(exp_avg),
         exp_avg_sq = floats(exp_avg_sq),
         gradient_scale = static_cast<float>(arguments.gradient_scale),
         decay = static_cast<float>(1.0 - arguments.learning_rate * arguments.weight_decay),
         one_minus_beta1 = static_cast<float>(1.0 - arguments.beta1),
         beta2 = static_cast<float>(arguments.beta2),
         one_minus_beta2 = static_cast<float>(1.0 - arguments.beta2),
         sqrt_correction2 = static_cast<float>(std::sqrt(correction2)),
         epsilon = static_cast<float>(arguments.epsilon),
         step_size = static_cast<float>(arguments.learning_rate / correction1)](int64_t begin,
                                                                                int64_t end) {
          for_vectors(begin, end, [&](int64_t i, auto lanes) {
            const Vector g = lanes.load(gradient + i) * gradient_scale;
            const Vector old_m = lanes.load(exp_avg + i);
            const Vector m = old_m + (g - old_m) * one_minus_beta1;
            const Vector v = lanes.load(exp_avg_sq + i) * beta2 + one_minus_beta2 * g * g;
            const Vector denominator = onednn::square_root(v) / sqrt_correction2 + epsilon;
            lanes.store(exp_avg + i, m);
            lanes.store(exp_avg_sq + i, v);
            lanes.store(parameter + i,
                        lanes.load(parameter + i) * decay - step_size * m / denominator);
          });
        });
  });
}

void OnednnBackend::sgd(Stream& stream, const SgdArguments& arguments, const Tensor& gradient,
                        const Tensor& parameter, const Tensor& momentum_buffer) {
  with_type(gradient.dtype(), [&]<typename T>(T) {
    launch_chunks(
        stream, parameter.numel(), kGrain,
        [gradient = elements<T>(gradient), parameter = floats(parameter),
         momentum_buffer = floats(momentum_buffer),
         gradient_scale = static_cast<float>(arguments.gradient_scale),
         weight_decay = static_cast<float>(arguments.weight_decay),
         momentum = static_cast<float>(arguments.momentum),
         learning_rate = static_cast<float>(arguments.learning_rate)](int64_t begin, int64_t end) {
          for_vectors(begin, end, [&](int64_t i, auto lanes) {
            const Vector old = lanes.load(parameter + i);
            Vector step = lanes.load(gradient + i) * gradient_scale + weight_decay * old;
            if (momentum_buffer != nullptr) {
              step = lanes.load(momentum_buffer + i) * momentum + step;
              lanes.store(momentum_buffer + i, step);
            }
            lanes.store(parameter + i, old - learning_rate * step);
          });
        });
  });
}

}  // namespace zerolab

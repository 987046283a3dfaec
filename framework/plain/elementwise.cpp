#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/core/philox.h"
#include "framework/plain/kernel.h"
#include "framework/plain/plain_backend.h"

namespace zerolab {
namespace {

constexpr double kGeluCubic = 0.044715;
constexpr double kGeluScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)

template <typename T>
T gelu(T x) {
  const T inner = T(kGeluScale) * (x + T(kGeluCubic) * x * x * x);
  return T(0.5) * x * (1 + std::tanh(inner));
}

template <typename T>
T gelu_derivative(T x) {
  const T tanh = std::tanh(T(kGeluScale) * (x + T(kGeluCubic) * x * x * x));
  const T inner_derivative = T(kGeluScale) * (1 + T(3 * kGeluCubic) * x * x);
  return T(0.5) * (1 + tanh) + T(0.5) * x * (1 - tanh * tanh) * inner_derivative;
}

template <typename T>
void fill_with(Stream& stream, const Tensor& out, double value) {
  plain::launch(stream, [out = out.data<T>(), numel = out.numel(),
                         value = plain::rounded<T>(value)] { std::fill_n(out, numel, value); });
}

}  // namespace

void PlainBackend::fill(Stream& stream, const Tensor& out, double value) {
  switch (out.dtype()) {
    case DType::kFloat32:
      return fill_with<float>(stream, out, value);
    case DType::kFloat64:
      return fill_with<double>(stream, out, value);
    case DType::kInt32:
      return fill_with<int32_t>(stream, out, value);
    case DType::kInt64:
      return fill_with<int64_t>(stream, out, value);
    case DType::kBFloat16:
      return fill_with<BFloat16>(stream, out, value);
    case DType::kFloat16:
      return fill_with<Float16>(stream, out, value);
  }
}

void PlainBackend::copy(Stream& stream, const Tensor& source, const Tensor& out) {
  plain::launch(stream, [source = source.raw(), out = out.raw(), bytes = out.bytes()] {
    std::copy_n(source, bytes, out);
  });
}

void PlainBackend::accumulate(Stream& stream, const Tensor& source, const Tensor& out) {
  plain::with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [source = source.data<T>(), out = out.data<T>(), numel = out.numel()] {
      for (int64_t i = 0; i < numel; ++i) {
        out[i] += source[i];
      }
    });
  });
}

void PlainBackend::add(Stream& stream, const Tensor& a, const Tensor& b, const Tensor& out) {
  plain::with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [a = a.data<T>(), b = b.data<T>(), out = out.data<T>(),
                           numel = out.numel(), period = b.numel()] {
      for (int64_t i = 0; i < numel; ++i) {
        out[i] = a[i] + b[i % period];
      }
    });
  });
}

void PlainBackend::scale(Stream& stream, const Tensor& a, double factor, const Tensor& out,
                         bool accumulate) {
  plain::with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [a = a.data<T>(), factor = static_cast<T>(factor), out = out.data<T>(),
                           numel = out.numel(), accumulate] {
      for (int64_t i = 0; i < numel; ++i) {
        plain::store(out[i], a[i] * factor, accumulate);
      }
    });
  });
}

void PlainBackend::relu_forward(Stream& stream, const Tensor& x, const Tensor& out) {
  plain::with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [x = x.data<T>(), out = out.data<T>(), numel = out.numel()] {
      for (int64_t i = 0; i < numel; ++i) {
        out[i] = x[i] < 0 ? T(0) : x[i];  // keeps a NaN
      }
    });
  });
}

void PlainBackend::relu_backward(Stream& stream, const Tensor& x, const Tensor& dy,
                                 const Tensor& dx, bool accumulate) {
  plain::with_float_type(dx.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [x = x.data<T>(), dy = dy.data<T>(), dx = dx.data<T>(),
                           numel = dx.numel(), accumulate] {
      for (int64_t i = 0; i < numel; ++i) {
        plain::store(dx[i], x[i] > 0 ? dy[i] : T(0), accumulate);
      }
    });
  });
}

void PlainBackend::gelu_forward(Stream& stream, const Tensor& x, const Tensor& out) {
  plain::with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [x = x.data<T>(), out = out.data<T>(), numel = out.numel()] {
      for (int64_t i = 0; i < numel; ++i) {
        out[i] = gelu(x[i]);
      }
    });
  });
}

void PlainBackend::gelu_backward(Stream& stream, const Tensor& x, const Tensor& dy,
                                 const Tensor& dx, bool accumulate) {
  plain::with_float_type(dx.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [x = x.data<T>(), dy = dy.data<T>(), dx = dx.data<T>(),
                           numel = dx.numel(), accumulate] {
      for (int64_t i = 0; i < numel; ++i) {
        plain::store(dx[i], dy[i] * gelu_derivative(x[i]), accumulate);
      }
    });
  });
}

void PlainBackend::dropout(Stream& stream, const Tensor& x, const DropoutKey& key,
                           const Tensor& out, bool accumulate) {
  if (out.numel() == 0) {
    return;
  }
  plain::with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [x = x.data<T>(), out = out.data<T>(), key, samples = out.shape()[0],
                           per_sample = out.numel() / out.shape()[0], accumulate] {
      const uint64_t philox_key = key.seed ^ (key.op * 0x9E3779B97F4A7C15);
      const T keep_scale = static_cast<T>(1.0 / (1.0 - key.probability));
      for (int64_t s = 0; s < samples; ++s) {
        for (int64_t i = 0; i < per_sample; ++i) {
          const uint32_t bits = philox(philox_key, key.first_sample + s, i / 4)[i % 4];
          const bool kept = uniform_from_bits(bits) >= key.probability;
          const int64_t at = s * per_sample + i;
          plain::store(out[at], kept ? x[at] * keep_scale : T(0), accumulate);
        }
      }
    });
  });
}

}  // namespace zerolab

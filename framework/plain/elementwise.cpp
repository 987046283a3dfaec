#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/core/philox.h"
#include "framework/kernels/dropout_key.h"
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
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}

template <typename T>
void fill_with(Stream& stream, const Tensor& out, double value) {
  plain::launch(stream, [out = out.data<T>(), numel = out.numel(), value = rounded<T>(value)] {
    std::fill_n(out, numel, value);
  });
}

/// out = source, or out += source.
void store_all(Stream& stream, const Tensor& source, const Tensor& out, bool accumulate) {
  with_float_types(source.dtype(), out.dtype(), [&]<typename From, typename To>(From, To) {
    plain::launch(stream, [source = source.data<From>(), out = out.data<To>(), numel = out.numel(),
                           accumulate] {
      for (int64_t i = 0; i < numel; ++i) {
        plain::store(out[i], widened(source[i]), accumulate);
      }
    });
  });
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
  if (source.dtype() == out.dtype()) {
    plain::launch(stream, [source = source.raw(), out = out.raw(), bytes = out.bytes()] {
      std::copy_n(source, bytes, out);
    });
  } else {
    store_all(stream, source, out, false);
  }
}

void PlainBackend::accumulate(Stream& stream, const Tensor& source, const Tensor& out) {
  store_all(stream, source, out, true);
}

void PlainBackend::add(Stream& stream, const Tensor& a, const Tensor& b, const Tensor& out) {
  with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [a = a.data<T>(), b = b.data<T>(), out = out.data<T>(),
                           numel = out.numel(), period = b.numel()] {
      for (int64_t i = 0; i < numel; ++i) {
        plain::store(out[i], widened(a[i]) + widened(b[i % period]), false);
      }
    });
  });
}

void PlainBackend::scale(Stream& stream, const Tensor& a, double factor, const Tensor& out,
                         bool accumulate) {
  with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [a = a.data<T>(), factor = static_cast<Compute<T>>(factor),
                           out = out.data<T>(), numel = out.numel(), accumulate] {
      for (int64_t i = 0; i < numel; ++i) {
        plain::store(out[i], widened(a[i]) * factor, accumulate);
      }
    });
  });
}

void PlainBackend::relu_forward(Stream& stream, const Tensor& x, const Tensor& out) {
  with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [x = x.data<T>(), out = out.data<T>(), numel = out.numel()] {
      for (int64_t i = 0; i < numel; ++i) {
        out[i] = widened(x[i]) < 0 ? T() : x[i];  // keeps a NaN
      }
    });
  });
}

void PlainBackend::relu_backward(Stream& stream, const Tensor& x, const Tensor& dy,
                                 const Tensor& dx, bool accumulate) {
  with_float_type(dx.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [x = x.data<T>(), dy = dy.data<T>(), dx = dx.data<T>(),
                           numel = dx.numel(), accumulate] {
      for (int64_t i = 0; i < numel; ++i) {
        plain::store(dx[i], widened(x[i]) > 0 ? widened(dy[i]) : 0, accumulate);
      }
    });
  });
}

void PlainBackend::gelu_forward(Stream& stream, const Tensor& x, const Tensor& out) {
  with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [x = x.data<T>(), out = out.data<T>(), numel = out.numel()] {
      for (int64_t i = 0; i < numel; ++i) {
        plain::store(out[i], gelu(widened(x[i])), false);
      }
    });
  });
}

void PlainBackend::gelu_backward(Stream& stream, const Tensor& x, const Tensor& dy,
                                 const Tensor& dx, bool accumulate) {
  with_float_type(dx.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [x = x.data<T>(), dy = dy.data<T>(), dx = dx.data<T>(),
                           numel = dx.numel(), accumulate] {
      for (int64_t i = 0; i < numel; ++i) {
        plain::store(dx[i], widened(dy[i]) * gelu_derivative(widened(x[i])), accumulate);
      }
    });
  });
}

void PlainBackend::dropout(Stream& stream, const Tensor& x, const DropoutKey& key,
                           const Tensor& out, bool accumulate) {
  if (out.numel() == 0) {
    return;
  }
  with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [x = x.data<T>(), out = out.data<T>(), key, samples = out.shape()[0],
                           per_sample = out.numel() / out.shape()[0], accumulate] {
      const uint64_t philox_key = key.seed ^ (key.op * 0x9E3779B97F4A7C15);
      const auto keep_scale = static_cast<Compute<T>>(1.0 / (1.0 - key.probability));
      for (int64_t s = 0; s < samples; ++s) {
        for (int64_t i = 0; i < per_sample; ++i) {
          const uint32_t bits = philox(philox_key, key.first_sample + s, i / 4)[i % 4];
          const bool kept = uniform_from_bits(bits) >= key.probability;
          const int64_t at = s * per_sample + i;
          plain::store(out[at], kept ? widened(x[at]) * keep_scale : 0, accumulate);
        }
      }
    });
  });
}

void PlainBackend::silu_forward(Stream& stream, const Tensor& x, const Tensor& out) {
  with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [x = x.data<T>(), out = out.data<T>(), numel = out.numel()] {
      for (int64_t i = 0; i < numel; ++i) {
        const auto value = widened(x[i]);
        plain::store(out[i], value * sigmoid(value), false);
      }
    });
  });
}

void PlainBackend::silu_backward(Stream& stream, const Tensor& x, const Tensor& dy,
                                 const Tensor& dx, bool accumulate) {
  with_float_type(dx.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [x = x.data<T>(), dy = dy.data<T>(), dx = dx.data<T>(),
                           numel = dx.numel(), accumulate] {
      for (int64_t i = 0; i < numel; ++i) {
        const auto value = widened(x[i]);
        const auto gate = sigmoid(value);
        plain::store(dx[i], widened(dy[i]) * (gate + value * gate * (1 - gate)), accumulate);
      }
    });
  });
}

}  // namespace zerolab

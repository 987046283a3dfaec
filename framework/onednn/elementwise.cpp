#include <cstring>
#include <numbers>

#include "framework/onednn/kernel.h"
#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/vector_math.h"

namespace zerolab {

using onednn::elements;
using onednn::for_vectors;
using onednn::kGrain;
using onednn::launch_chunks;
using onednn::put;
using onednn::Vector;
using onednn::with_type;
using onednn::with_types;

namespace {

/// Bytes of a copy that are worth a thread's while.
constexpr int64_t kCopyGrain = int64_t{1} << 20;

/// 0.5 * (1 + tanh(u)) is sigmoid(2u): fewer operations, and no cancellation where x is negative.
constexpr float kGeluCubic = 0.044715F;
constexpr float kTwiceGeluScale =
    static_cast<float>(2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);

Vector gelu_gate(Vector x) {
  return onednn::sigmoid(kTwiceGeluScale * (x + kGeluCubic * x * x * x));
}

Vector gelu_derivative(Vector x) {
  const Vector gate = gelu_gate(x);
  return gate + x * gate * (1.0F - gate) * (kTwiceGeluScale * (1.0F + 3 * kGeluCubic * x * x));
}

Vector silu_derivative(Vector x) {
  const Vector gate = onednn::sigmoid(x);
  return gate + x * gate * (1.0F - gate);
}

/// out = f(x), element by element.
template <typename Function>
void map(Stream& stream, const Tensor& x, const Tensor& out, Function f) {
  with_type(out.dtype(), [&]<typename T>(T) {
    launch_chunks(stream, out.numel(), kGrain,
                  [x = elements<T>(x), out = elements<T>(out), f](int64_t begin, int64_t end) {
                    for_vectors(begin, end, [&](int64_t i, auto lanes) {
                      lanes.store(out + i, f(lanes.load(x + i)));
                    });
                  });
  });
}

/// dx = f(x, dy), or is added to.
template <typename Function>
void map_gradient(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx, Function f,
                  bool accumulate) {
  with_type(dx.dtype(), [&]<typename T>(T) {
    launch_chunks(stream, dx.numel(), kGrain,
                  [x = elements<T>(x), dy = elements<T>(dy), dx = elements<T>(dx), f, accumulate](
                      int64_t begin, int64_t end) {
                    for_vectors(begin, end, [&](int64_t i, auto lanes) {
                      put(lanes, dx + i, f(lanes.load(x + i), lanes.load(dy + i)), accumulate);
                    });
                  });
  });
}

}  // namespace

void OnednnBackend::fill(Stream& stream, const Tensor& out, double value) {
  if (size_of(out.dtype()) > 4 || !is_floating(out.dtype())) {
    PlainBackend::fill(stream, out, value);
    return;
  }
  with_type(out.dtype(), [&]<typename T>(T) {
    launch_chunks(stream, out.numel(), kGrain,
                  [out = elements<T>(out), value = static_cast<T>(value)](
                      int64_t begin, int64_t end) { std::fill(out + begin, out + end, value); });
  });
}

void OnednnBackend::copy(Stream& stream, const Tensor& source, const Tensor& out) {
  if (source.dtype() == out.dtype()) {
    launch_chunks(stream, out.bytes(), kCopyGrain,
                  [source = source.raw(), out = out.raw()](int64_t begin, int64_t end) {
                    std::copy(source + begin, source + end, out + begin);
                  });
    return;
  }
  with_types(source.dtype(), out.dtype(), [&]<typename From, typename To>(From, To) {
    launch_chunks(
        stream, out.numel(), kGrain,
        [source = elements<From>(source), out = elements<To>(out)](int64_t begin, int64_t end) {
          for_vectors(begin, end,
                      [&](int64_t i, auto lanes) { lanes.store(out + i, lanes.load(source + i)); });
        });
  });
}

void OnednnBackend::accumulate(Stream& stream, const Tensor& source, const Tensor& out) {
  with_types(source.dtype(), out.dtype(), [&]<typename From, typename To>(From, To) {
    launch_chunks(
        stream, out.numel(), kGrain,
        [source = elements<From>(source), out = elements<To>(out)](int64_t begin, int64_t end) {
          for_vectors(begin, end, [&](int64_t i, auto lanes) {
            lanes.store(out + i, lanes.load(out + i) + lanes.load(source + i));
          });
        });
  });
}

void OnednnBackend::add(Stream& stream, const Tensor& a, const Tensor& b, const Tensor& out) {
  with_type(out.dtype(), [&]<typename T>(T) {
    launch_chunks(stream, out.numel(), kGrain,
                  [a = elements<T>(a), b = elements<T>(b), period = b.numel(),
                   out = elements<T>(out)](int64_t begin, int64_t end) {
                    // Runs within which b does not start again.
                    while (begin < end) {
                      const int64_t at = begin % period;
                      const int64_t run_end = std::min(end, begin - at + period);
                      const T* b_run = b - (begin - at);
                      for_vectors(begin, run_end, [&](int64_t i, auto lanes) {
                        lanes.store(out + i, lanes.load(a + i) + lanes.load(b_run + i));
                      });
                      begin = run_end;
                    }
                  });
  });
}

void OnednnBackend::scale(Stream& stream, const Tensor& a, double factor, const Tensor& out,
                          bool accumulate) {
  with_type(out.dtype(), [&]<typename T>(T) {
    launch_chunks(stream, out.numel(), kGrain,
                  [a = elements<T>(a), factor = static_cast<float>(factor), out = elements<T>(out),
                   accumulate](int64_t begin, int64_t end) {
                    for_vectors(begin, end, [&](int64_t i, auto lanes) {
                      put(lanes, out + i, lanes.load(a + i) * factor, accumulate);
                    });
                  });
  });
}

void OnednnBackend::relu_forward(Stream& stream, const Tensor& x, const Tensor& out) {
  map(stream, x, out, [](Vector value) { return value < 0.0F ? Vector{} : value; });  // keeps a NaN
}

void OnednnBackend::relu_backward(Stream& stream, const Tensor& x, const Tensor& dy,
                                  const Tensor& dx, bool accumulate) {
  map_gradient(
      stream, x, dy, dx,
      [](Vector value, Vector gradient) { return value > 0.0F ? gradient : Vector{}; }, accumulate);
}

void OnednnBackend::gelu_forward(Stream& stream, const Tensor& x, const Tensor& out) {
  map(stream, x, out, [](Vector value) { return value * gelu_gate(value); });
}

void OnednnBackend::gelu_backward(Stream& stream, const Tensor& x, const Tensor& dy,
                                  const Tensor& dx, bool accumulate) {
  map_gradient(
      stream, x, dy, dx,
      [](Vector value, Vector gradient) { return gradient * gelu_derivative(value); }, accumulate);
}

void OnednnBackend::silu_forward(Stream& stream, const Tensor& x, const Tensor& out) {
  map(stream, x, out, [](Vector value) { return value * onednn::sigmoid(value); });
}

void OnednnBackend::silu_backward(Stream& stream, const Tensor& x, const Tensor& dy,
                                  const Tensor& dx, bool accumulate) {
  map_gradient(
      stream, x, dy, dx,
      [](Vector value, Vector gradient) { return gradient * silu_derivative(value); }, accumulate);
}

}  // namespace zerolab

#include <cmath>
#include <numbers>

#include "framework/cuda/check.h"
#include "framework/cuda/cuda_backend.h"
#include "framework/cuda/map.h"

namespace zerolab {
namespace {

constexpr double kGeluCubic = 0.044715;
constexpr double kGeluScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)

struct Identity {
  __device__ float operator()(float x) const { return x; }
};
struct Scale {
  float factor;
  __device__ float operator()(float x) const { return x * factor; }
};
struct Relu {
  __device__ float operator()(float x) const { return x < 0.0F ? 0.0F : x; }  // keeps a NaN
};
struct ReluBackward {
  __device__ float operator()(float x, float dy) const { return x > 0.0F ? dy : 0.0F; }
};

__device__ float gelu_tanh(float x) {
  return tanhf(static_cast<float>(kGeluScale) * (x + static_cast<float>(kGeluCubic) * x * x * x));
}
struct Gelu {
  __device__ float operator()(float x) const { return 0.5F * x * (1.0F + gelu_tanh(x)); }
};
struct GeluBackward {
  __device__ float operator()(float x, float dy) const {
    const float tanh = gelu_tanh(x);
    const float inner_derivative =
        static_cast<float>(kGeluScale) * (1.0F + static_cast<float>(3 * kGeluCubic) * x * x);
    return dy * (0.5F * (1.0F + tanh) + 0.5F * x * (1.0F - tanh * tanh) * inner_derivative);
  }
};

struct Silu {
  __device__ float operator()(float x) const { return x / (1.0F + expf(-x)); }
};
struct SiluBackward {
  __device__ float operator()(float x, float dy) const {
    const float gate = 1.0F / (1.0F + expf(-x));
    return dy * (gate + x * gate * (1.0F - gate));
  }
};

/// out[i] = a[i] + b[i mod period]; where N > 1, N divides the period.
template <typename T>
struct Add {
  const T* a;
  const T* b;
  T* out;
  int64_t period;

  template <int N>
  __device__ void run(int64_t i) const {
    auto pack = cuda::load_pack<N>(a + i);
    const auto b_pack = cuda::load_pack<N>(b + i % period);
    for (int lane = 0; lane < N; ++lane) {
      cuda::store(pack.lanes[lane], cuda::load(pack.lanes[lane]) + cuda::load(b_pack.lanes[lane]));
    }
    cuda::store_pack(out + i, pack);
  }
};

template <typename T>
struct Fill {
  T* out;
  T value;

  template <int N>
  __device__ void run(int64_t i) const {
    cuda::Pack<T, N> pack;
    for (int lane = 0; lane < N; ++lane) {
      pack.lanes[lane] = value;
    }
    cuda::store_pack(out + i, pack);
  }
};

/// Fills with the bits of `value`; Bits is the unsigned type of its size.
template <typename Bits, typename T>
void fill_with(Stream& stream, const Tensor& out, T value) {
  cuda::for_packs<cuda::kLanes<Bits>>(cuda::handle_of(stream), out.numel(),
                                      cuda::are_aligned(out.raw()),
                                      Fill<Bits>{out.data<Bits>(), std::bit_cast<Bits>(value)});
}

void store_all(Stream& stream, const Tensor& source, const Tensor& out, bool accumulate) {
  cuda::with_device_types(source.dtype(), out.dtype(), [&]<typename From, typename To>(From, To) {
    cuda::map(stream, source.data<From>(), out.data<To>(), out.numel(), accumulate, Identity{});
  });
}

}  // namespace

void CudaBackend::fill(Stream& stream, const Tensor& out, double value) {
  switch (out.dtype()) {
    case DType::kFloat32:
      return fill_with<uint32_t>(stream, out, static_cast<float>(value));
    case DType::kFloat64:
      return fill_with<uint64_t>(stream, out, value);
    case DType::kInt32:
      return fill_with<uint32_t>(stream, out, static_cast<int32_t>(value));
    case DType::kInt64:
      return fill_with<uint64_t>(stream, out, static_cast<int64_t>(value));
    case DType::kBFloat16:
      return fill_with<uint16_t>(stream, out, rounded<BFloat16>(value));
    case DType::kFloat16:
      return fill_with<uint16_t>(stream, out, rounded<Float16>(value));
  }
}

void CudaBackend::copy(Stream& stream, const Tensor& source, const Tensor& out) {
  if (source.dtype() != out.dtype()) {
    store_all(stream, source, out, false);
  } else if (out.numel() > 0) {
    cuda::check(cudaMemcpyAsync(out.raw(), source.raw(), out.bytes(), cudaMemcpyDeviceToDevice,
                                cuda::handle_of(stream)),
                "copying on the device");
  }
}

void CudaBackend::accumulate(Stream& stream, const Tensor& source, const Tensor& out) {
  store_all(stream, source, out, true);
}

void CudaBackend::add(Stream& stream, const Tensor& a, const Tensor& b, const Tensor& out) {
  cuda::with_device_type(out.dtype(), [&]<typename T>(T) {
    constexpr int kLanes = cuda::kLanes<T>;
    const Add<T> body{a.data<T>(), b.data<T>(), out.data<T>(), b.numel()};
    cuda::for_packs<kLanes>(
        cuda::handle_of(stream), out.numel(),
        cuda::are_aligned(body.a, body.b, body.out) && body.period % kLanes == 0, body);
  });
}

void CudaBackend::scale(Stream& stream, const Tensor& a, double factor, const Tensor& out,
                        bool accumulate) {
  cuda::with_device_type(out.dtype(), [&]<typename T>(T) {
    cuda::map(stream, a.data<T>(), out.data<T>(), out.numel(), accumulate,
              Scale{static_cast<float>(factor)});
  });
}

void CudaBackend::relu_forward(Stream& stream, const Tensor& x, const Tensor& out) {
  cuda::with_device_type(out.dtype(), [&]<typename T>(T) {
    cuda::map(stream, x.data<T>(), out.data<T>(), out.numel(), false, Relu{});
  });
}

void CudaBackend::relu_backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx,
                                bool accumulate) {
  cuda::with_device_type(dx.dtype(), [&]<typename T>(T) {
    cuda::map(stream, x.data<T>(), dy.data<T>(), dx.data<T>(), dx.numel(), accumulate,
              ReluBackward{});
  });
}

void CudaBackend::gelu_forward(Stream& stream, const Tensor& x, const Tensor& out) {
  cuda::with_device_type(out.dtype(), [&]<typename T>(T) {
    cuda::map(stream, x.data<T>(), out.data<T>(), out.numel(), false, Gelu{});
  });
}

void CudaBackend::gelu_backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx,
                                bool accumulate) {
  cuda::with_device_type(dx.dtype(), [&]<typename T>(T) {
    cuda::map(stream, x.data<T>(), dy.data<T>(), dx.data<T>(), dx.numel(), accumulate,
              GeluBackward{});
  });
}

void CudaBackend::silu_forward(Stream& stream, const Tensor& x, const Tensor& out) {
  cuda::with_device_type(out.dtype(), [&]<typename T>(T) {
    cuda::map(stream, x.data<T>(), out.data<T>(), out.numel(), false, Silu{});
  });
}

void CudaBackend::silu_backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx,
                                bool accumulate) {
  cuda::with_device_type(dx.dtype(), [&]<typename T>(T) {
    cuda::map(stream, x.data<T>(), dy.data<T>(), dx.data<T>(), dx.numel(), accumulate,
              SiluBackward{});
  });
}

}  // namespace zerolab

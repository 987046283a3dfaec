#include "framework/cuda/column_sums.h"
#include "framework/cuda/cuda_backend.h"

// A warp a row: its second and third passes over the row find it in the cache.

namespace zerolab {

using cuda::Element;
using cuda::kWarp;
using cuda::load;
using cuda::Pack;
using cuda::store;
using cuda::warp_sum;

namespace {

/// The calling warp's row; may be beyond the last.
__device__ int64_t warp_row() { return cuda::first_item() / kWarp; }

/// Calls `body(j)` for the first elements of the calling lane's packs of N in a row of `cols`, a
/// multiple of N.
template <int N, typename Body>
__device__ void for_row_packs(int64_t cols, Body&& body) {
  for (int64_t j = static_cast<int64_t>(threadIdx.x % kWarp) * N; j < cols; j += kWarp * N) {
    body(j);
  }
}

/// A pack from memory that may begin anywhere unless it is `aligned`.
template <int N, Element T>
__device__ Pack<T, N> load_pack(const T* from, bool aligned) {
  if (aligned) {
    return cuda::load_pack<N>(from);
  }
  Pack<T, N> pack;
  for (int lane = 0; lane < N; ++lane) {
    pack.lanes[lane] = from[lane];
  }
  return pack;
}
template <int N, Element T>
__device__ void store_pack(T* to, const Pack<T, N>& pack, bool aligned) {
  if (aligned) {
    return cuda::store_pack(to, pack);
  }
  for (int lane = 0; lane < N; ++lane) {
    to[lane] = pack.lanes[lane];
  }
}

/// Of a + b, which it writes to `sum`; of a where there is no b.
template <int N, Element T>
__global__ void forward_kernel(const T* a, const T* b, const T* weight, const T* bias,
                               float epsilon, int64_t rows, int64_t cols, T* sum, T* out,
                               float* mean, float* rstd, bool aligned) {
  const int64_t row = warp_row();
  if (row >= rows) {
    return;
  }
  const int64_t begin = row * cols;
  float total = 0.0F;
  for_row_packs<N>(cols, [&](int64_t j) {
    auto pack = load_pack<N>(a + begin + j, aligned);
    if (b != nullptr) {
      const auto added = load_pack<N>(b + begin + j, aligned);
      for (int lane = 0; lane < N; ++lane) {
        store(pack.lanes[lane], load(pack.lanes[lane]) + load(added.lanes[lane]));
      }
      store_pack(sum + begin + j, pack, aligned);
    }
    for (int lane = 0; lane < N; ++lane) {
      total += load(pack.lanes[lane]);
    }
  });
  const T* x = (b == nullptr ? a : sum) + begin;  // a lane reads what it wrote
  const float row_mean = warp_sum(total) / static_cast<float>(cols);
  float squares = 0.0F;
  for_row_packs<N>(cols, [&](int64_t j) {
    const auto pack = load_pack<N>(x + j, aligned);
    for (int lane = 0; lane < N; ++lane) {
      const float difference = load(pack.lanes[lane]) - row_mean;
      squares += difference * difference;
    }
  });
  const float row_rstd = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(cols) + epsilon);
  for_row_packs<N>(cols, [&](int64_t j) {
    auto pack = load_pack<N>(x + j, aligned);
    const auto scale = load_pack<N>(weight + j, aligned);
    const auto shift = bias == nullptr ? Pack<T, N>{} : load_pack<N>(bias + j, aligned);
    for (int lane = 0; lane < N; ++lane) {
      store(pack.lanes[lane],
            (load(pack.lanes[lane]) - row_mean) * row_rstd * load(scale.lanes[lane]) +
                load(shift.lanes[lane]));
    }
    store_pack(out + begin + j, pack, aligned);
  });
  if (threadIdx.x % kWarp == 0) {
    mean[row] = row_mean;
    rstd[row] = row_rstd;
  }
}

template <int N, Element T>
__global__ void backward_input_kernel(const T* x, const T* weight, const float* mean,
                                      const float* rstd, const T* dy, int64_t rows, int64_t cols,
                                      T* dx, bool accumulate, bool aligned) {
  const int64_t row = warp_row();
  if (row >= rows) {
    return;
  }
  const float row_mean = mean[row];
  const float row_rstd = rstd[row];
  x += row * cols;
  dy += row * cols;
  dx += row * cols;
  /// Calls `body(lane, gradient, normalized)` for the elements from j on.
  const auto for_lanes = [&](int64_t j, auto&& body) {
    const auto x_pack = load_pack<N>(x + j, aligned);
    const auto dy_pack = load_pack<N>(dy + j, aligned);
    const auto scale = load_pack<N>(weight + j, aligned);
    for (int lane = 0; lane < N; ++lane) {
      body(lane, load(dy_pack.lanes[lane]) * load(scale.lanes[lane]),
           (load(x_pack.lanes[lane]) - row_mean) * row_rstd);
    }
  };
  float sum = 0.0F;             // of the gradients of the normalised elements
  float sum_normalized = 0.0F;  // of the same times those elements
  for_row_packs<N>(cols, [&](int64_t j) {
    for_lanes(j, [&](int, float gradient, float normalized) {
      sum += gradient;
      sum_normalized += gradient * normalized;
    });
  });
  const float mean_gradient = warp_sum(sum) / static_cast<float>(cols);
  const float mean_normalized = warp_sum(sum_normalized) / static_cast<float>(cols);
  for_row_packs<N>(cols, [&](int64_t j) {
    Pack<T, N> pack;
    if (accumulate) {
      pack = load_pack<N>(dx + j, aligned);
    }
    for_lanes(j, [&](int lane, float gradient, float normalized) {
      store(pack.lanes[lane], (gradient - mean_gradient - normalized * mean_normalized) * row_rstd,
            accumulate);
    });
    store_pack(dx + j, pack, aligned);
  });
}

/// What rows add to the gradient of the weight.
template <Element T>
struct WeightTerms {
  __device__ float operator()(int64_t i, int64_t j) const {
    return load(dy[i * cols + j]) * ((load(x[i * cols + j]) - mean[i]) * rstd[i]);
  }

  const T* x;
  const float* mean;
  const float* rstd;
  const T* dy;
  int64_t cols;
};

/// Launches `kernel` with a warp for each row.
template <typename... Parameters, typename... Arguments>
void launch_rows(Stream& stream, int64_t rows, void (*kernel)(Parameters...),
                 Arguments... arguments) {
  constexpr int kRows = cuda::kThreads / kWarp;
  if (rows > 0) {
    cuda::launch(kernel, dim3(static_cast<unsigned>((rows + kRows - 1) / kRows)),
                 dim3(cuda::kThreads), 0, cuda::handle_of(stream), arguments...);
  }
}

/// Calls `body<T, N>()` with the size of a lane's packs, and so the order of sums, as the columns
/// alone decide it.
template <typename Body>
void with_packs(DType dtype, int64_t cols, Body&& body) {
  cuda::with_device_type(dtype, [&]<typename T>(T) {
    if (cols % cuda::kLanes<T> == 0) {
      body.template operator()<T, cuda::kLanes<T>>();
    } else {
      body.template operator()<T, 1>();
    }
  });
}

/// Layer norm of a + b, or of a where b and `sum` are undefined.
void launch_forward(Stream& stream, const Tensor& a, const Tensor& b, const Tensor& weight,
                    const Tensor& bias, double epsilon, const Tensor& sum, const Tensor& out,
                    const Tensor& mean, const Tensor& rstd) {
  const int64_t rows = a.shape().rows();
  const int64_t cols = a.shape().cols();
  const bool aligned =
      cuda::are_aligned(a.raw(), b.raw(), weight.raw(), bias.raw(), sum.raw(), out.raw());
  with_packs(a.dtype(), cols, [&]<typename T, int N>() {
    launch_rows(stream, rows, forward_kernel<N, T>, a.data<T>(), b.data<T>(), weight.data<T>(),
                bias.data<T>(), static_cast<float>(epsilon), rows, cols, sum.data<T>(),
                out.data<T>(), mean.data<float>(), rstd.data<float>(), aligned);
  });
}

}  // namespace

void CudaBackend::layer_norm_forward(Stream& stream, const Tensor& x, const Tensor& weight,
                                     const Tensor& bias, double epsilon, const Tensor& out,
                                     const Tensor& mean, const Tensor& rstd) {
  launch_forward(stream, x, Tensor(), weight, bias, epsilon, Tensor(), out, mean, rstd);
}

void CudaBackend::add_layer_norm_forward(Stream& stream, const Tensor& a, const Tensor& b,
                                         const Tensor& weight, const Tensor& bias, double epsilon,
                                         const Tensor& sum, const Tensor& out, const Tensor& mean,
                                         const Tensor& rstd) {
  launch_forward(stream, a, b, weight, bias, epsilon, sum, out, mean, rstd);
}

void CudaBackend::layer_norm_backward_input(Stream& stream, const Tensor& x, const Tensor& weight,
                                            const Tensor& mean, const Tensor& rstd,
                                            const Tensor& dy, const Tensor& dx, bool accumulate) {
  const int64_t rows = x.shape().rows();
  const int64_t cols = x.shape().cols();
  const bool aligned = cuda::are_aligned(x.raw(), weight.raw(), dy.raw(), dx.raw());
  with_packs(x.dtype(), cols, [&]<typename T, int N>() {
    launch_rows(stream, rows, backward_input_kernel<N, T>, x.data<T>(), weight.data<T>(),
                mean.data<float>(), rstd.data<float>(), dy.data<T>(), rows, cols, dx.data<T>(),
                accumulate, aligned);
  });
}

void CudaBackend::layer_norm_backward_parameters(Stream& stream, const Tensor& x,
                                                 const Tensor& mean, const Tensor& rstd,
                                                 const Tensor& dy, const Tensor& dweight,
                                                 bool accumulate_weight, const Tensor& dbias,
                                                 bool accumulate_bias) {
  if (dweight.defined()) {
    const Tensor workspace =
        Tensor::workspace(x.context(), sum_workspace(x.shape().rows(), x.shape().cols()));
    cuda::with_device_types(x.dtype(), dweight.dtype(), [&]<typename T, typename Out>(T, Out) {
      const WeightTerms<T> terms = {x.data<T>(), mean.data<float>(), rstd.data<float>(),
                                    dy.data<T>(), x.shape().cols()};
      cuda::sum_columns(stream, terms, x.shape().rows(), x.shape().cols(), dweight.data<Out>(),
                        accumulate_weight, workspace.data<float>());
    });
  }
  if (dbias.defined()) {
    sum_rows(stream, dy, dbias, accumulate_bias);
  }
}

}  // namespace zerolab

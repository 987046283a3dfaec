#pragma once

#include "framework/cuda/kernel.h"

namespace zerolab::cuda {

/// out[i] (+)= function(x[i]).
template <typename T, typename Out, typename Function>
struct UnaryMap {
  const T* x;
  Out* out;
  bool accumulate;
  Function function;

  template <int N>
  __device__ void run(int64_t i) const {
    const auto x_pack = load_pack<N>(x + i);
    Pack<Out, N> out_pack;
    if (accumulate) {
      out_pack = load_pack<N>(out + i);
    }
    for (int lane = 0; lane < N; ++lane) {
      store(out_pack.lanes[lane], function(load(x_pack.lanes[lane])), accumulate);
    }
    store_pack(out + i, out_pack);
  }
};

/// out[i] (+)= function(x[i], y[i]).
template <typename T, typename Function>
struct BinaryMap {
  const T* x;
  const T* y;
  T* out;
  bool accumulate;
  Function function;

  template <int N>
  __device__ void run(int64_t i) const {
    const auto x_pack = load_pack<N>(x + i);
    const auto y_pack = load_pack<N>(y + i);
    Pack<T, N> out_pack;
    if (accumulate) {
      out_pack = load_pack<N>(out + i);
    }
    for (int lane = 0; lane < N; ++lane) {
      store(out_pack.lanes[lane], function(load(x_pack.lanes[lane]), load(y_pack.lanes[lane])),
            accumulate);
    }
    store_pack(out + i, out_pack);
  }
};

/// Puts a map on `stream`; `out` may be an input.
template <typename T, typename Out, typename Function>
void map(Stream& stream, const T* x, Out* out, int64_t numel, bool accumulate, Function function) {
  for_packs<kLanes<T, Out>>(handle_of(stream), numel, are_aligned(x, out),
                            UnaryMap<T, Out, Function>{x, out, accumulate, function});
}
template <typename T, typename Function>
void map(Stream& stream, const T* x, const T* y, T* out, int64_t numel, bool accumulate,
         Function function) {
  for_packs<kLanes<T>>(handle_of(stream), numel, are_aligned(x, y, out),
                       BinaryMap<T, Function>{x, y, out, accumulate, function});
}

}  // namespace zerolab::cuda

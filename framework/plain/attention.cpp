#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/kernels/attention_mask.h"
#include "framework/plain/kernel.h"
#include "framework/plain/plain_backend.h"

namespace zerolab {
namespace {

/// The extents of one call, and where a head's vectors lie in qkv [B, T, 3C] and out [B, T, C].
struct Heads {
  Heads(const Tensor& qkv, int64_t num_heads, AttentionMask mask)
      : B(qkv.shape()[0]),
        T(qkv.shape()[1]),
        C(qkv.shape()[2] / 3),
        H(num_heads),
        D(C / H),
        causal(mask == AttentionMask::kCausal) {}

  /// Keys that query t sees: the first ones.
  int64_t keys(int64_t t) const { return causal ? t + 1 : T; }

  int64_t query(int64_t b, int64_t h, int64_t t) const { return (b * T + t) * 3 * C + h * D; }
  int64_t key(int64_t b, int64_t h, int64_t t) const { return query(b, h, t) + C; }
  int64_t value(int64_t b, int64_t h, int64_t t) const { return query(b, h, t) + 2 * C; }
  int64_t out(int64_t b, int64_t h, int64_t t) const { return (b * T + t) * C + h * D; }
  int64_t row(int64_t b, int64_t h, int64_t t) const { return (b * H + h) * T + t; }

  /// Calls `body(b, h, t)` for every query.
  template <typename Body>
  void for_each(Body&& body) const {
    for (int64_t b = 0; b < B; ++b) {
      for (int64_t h = 0; h < H; ++h) {
        for (int64_t t = 0; t < T; ++t) {
          body(b, h, t);
        }
      }
    }
  }

  int64_t B, T, C, H, D;
  bool causal;
};

template <typename T>
Compute<T> dot(const T* a, const T* b, int64_t size) {
  Compute<T> sum = 0;
  for (int64_t i = 0; i < size; ++i) {
    sum += widened(a[i]) * widened(b[i]);
  }
  return sum;
}

/// out += factor * a
template <typename T>
void add_scaled(Compute<T> factor, const T* a, Compute<T>* out, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    out[i] += factor * widened(a[i]);
  }
}

/// Writes the D components of query t's result; returns its log_sum_exp. `weights` has room for T.
template <typename T>
Compute<T> attend(const Heads& heads, const T* qkv, int64_t b, int64_t h, int64_t t,
                  std::vector<Compute<T>>& weights, T* out) {
  const int64_t size = heads.D;
  const int64_t keys = heads.keys(t);
  const auto scale = static_cast<Compute<T>>(1.0 / std::sqrt(static_cast<double>(size)));
  for (int64_t s = 0; s < keys; ++s) {
    weights[s] = scale * dot(qkv + heads.query(b, h, t), qkv + heads.key(b, h, s), size);
  }
  const Compute<T> largest = *std::max_element(weights.begin(), weights.begin() + keys);
  Compute<T> sum = 0;
  for (int64_t s = 0; s < keys; ++s) {
    weights[s] = std::exp(weights[s] - largest);
    sum += weights[s];
  }
  std::vector<Compute<T>> sums(size);
  for (int64_t s = 0; s < keys; ++s) {
    add_scaled(weights[s] / sum, qkv + heads.value(b, h, s), sums.data(), size);
  }
  for (int64_t i = 0; i < size; ++i) {
    plain::store(out[i], sums[i], false);
  }
  return largest + std::log(sum);
}

}  // namespace

void PlainBackend::attention_forward(Stream& stream, const Tensor& qkv, int64_t num_heads,
                                     AttentionMask mask, const Tensor& out,
                                     const Tensor& log_sum_exp) {
  with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [heads = Heads(qkv, num_heads, mask), qkv = qkv.data<T>(),
                           out = out.data<T>(), log_sum_exp = log_sum_exp.data<Compute<T>>()] {
      std::vector<Compute<T>> weights(heads.T);
      heads.for_each([&](int64_t b, int64_t h, int64_t t) {
        log_sum_exp[heads.row(b, h, t)] =
            attend(heads, qkv, b, h, t, weights, out + heads.out(b, h, t));
      });
    });
  });
}

void PlainBackend::attention_last(Stream& stream, const Tensor& qkv, int64_t num_heads,
                                  const Tensor& out) {
  with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(stream, [heads = Heads(qkv, num_heads, AttentionMask::kCausal),
                           qkv = qkv.data<T>(), out = out.data<T>()] {
      std::vector<Compute<T>> weights(heads.T);
      for (int64_t b = 0; b < heads.B; ++b) {
        for (int64_t h = 0; h < heads.H; ++h) {
          attend(heads, qkv, b, h, heads.T - 1, weights, out + b * heads.C + h * heads.D);
        }
      }
    });
  });
}

void PlainBackend::attention_backward(Stream& stream, const Tensor& qkv, const Tensor& out,
                                      const Tensor& log_sum_exp, const Tensor& dy,
                                      int64_t num_heads, AttentionMask mask, const Tensor& dqkv,
                                      bool accumulate) {
  with_float_type(out.dtype(), [&]<typename T>(T) {
    plain::launch(
        stream, [heads = Heads(qkv, num_heads, mask), numel = qkv.numel(), qkv = qkv.data<T>(),
                 out = out.data<T>(), log_sum_exp = log_sum_exp.data<Compute<T>>(),
                 dy = dy.data<T>(), dqkv = dqkv.data<T>(), accumulate] {
          std::vector<Compute<T>> sums(numel);
          if (accumulate) {
            std::transform(dqkv, dqkv + numel, sums.begin(), widened<T>);
          }
          const int64_t size = heads.D;
          const auto scale = static_cast<Compute<T>>(1.0 / std::sqrt(static_cast<double>(size)));
          heads.for_each([&](int64_t b, int64_t h, int64_t t) {
            const int64_t query = heads.query(b, h, t);
            const T* dy_row = dy + heads.out(b, h, t);
            // Softmax's gradient subtracts the mean of the weights' gradients, which equals dy ·
            // out.
            const Compute<T> mean = dot(dy_row, out + heads.out(b, h, t), size);
            for (int64_t s = 0; s < heads.keys(t); ++s) {
              const int64_t key = heads.key(b, h, s);
              const int64_t value = heads.value(b, h, s);
              const Compute<T> score = scale * dot(qkv + query, qkv + key, size);
              const Compute<T> weight = std::exp(score - log_sum_exp[heads.row(b, h, t)]);
              const Compute<T> dscore = scale * weight * (dot(dy_row, qkv + value, size) - mean);
              add_scaled(weight, dy_row, &sums[value], size);
              add_scaled(dscore, qkv + key, &sums[query], size);
              add_scaled(dscore, qkv + query, &sums[key], size);
            }
          });
          std::transform(sums.begin(), sums.end(), dqkv, rounded<T, Compute<T>>);
        });
  });
}

}  // namespace zerolab

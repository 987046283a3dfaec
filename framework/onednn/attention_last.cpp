#include <algorithm>
#include <cstdint>
#include <vector>

#include "framework/onednn/attention_tiles.h"
#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/vector_math.h"

namespace zerolab {
namespace onednn {
namespace {

/// One head's last query, which sees all keys: here the lanes are its components. `qkv` points to
/// the head's first query; `weights` has room for T, `sums` for a row.
template <typename T>
void attend_last(const Heads& heads, const T* qkv, std::vector<float>& weights,
                 std::vector<Vector>& sums, T* out) {
  const int64_t stride = 3 * heads.C;
  const T* query = qkv + (heads.T - 1) * stride;
  const T* keys = qkv + heads.C;
  const T* values = keys + heads.C;
  const float scale = heads.scale();
  for (int64_t t = 0; t < heads.T; ++t) {
    Vector products = {};
    for_vectors(0, heads.D, [&](int64_t d, auto lanes) {
      products = multiply_add(lanes.load(query + d), lanes.load(keys + t * stride + d), products);
    });
    weights[t] = scale * sum_of(products);
  }
  const float largest = *std::max_element(weights.begin(), weights.end());
  Vector totals = {};
  for_vectors(0, heads.T, [&](int64_t t, auto lanes) {
    const Vector weight = lanes.keep(exp(lanes.load(&weights[t]) - largest));
    lanes.store(&weights[t], weight);
    totals += weight;
  });
  const float total = sum_of(totals);
  std::fill(sums.begin(), sums.end(), Vector{});
  for (int64_t t = 0; t < heads.T; ++t) {
    for_vectors(0, heads.D, [&](int64_t d, auto lanes) {
      Vector& sum = sums[d / kLanes];
      sum = multiply_add(broadcast(weights[t]), lanes.load(values + t * stride + d), sum);
    });
  }
  for_vectors(0, heads.D,
              [&](int64_t d, auto lanes) { lanes.store(out + d, sums[d / kLanes] / total); });
}

}  // namespace
}  // namespace onednn

void OnednnBackend::attention_last(Stream& stream, const Tensor& qkv, int64_t num_heads,
                                   const Tensor& out) {
  onednn::with_type(qkv.dtype(), [&]<typename T>(T) {
    const onednn::Heads heads(qkv, num_heads, AttentionMask::kCausal);
    onednn::launch_chunks(stream, heads.B * heads.H, 1,
                          [heads, qkv = onednn::elements<T>(qkv), out = onednn::elements<T>(out)](
                              int64_t begin, int64_t end) {
                            std::vector<float> weights(heads.T);
                            std::vector<onednn::Vector> sums(heads.row_vectors());
                            for (int64_t i = begin; i < end; ++i) {
                              const int64_t b = i / heads.H;
                              const int64_t at_head = i % heads.H * heads.D;
                              onednn::attend_last(heads, qkv + 3 * b * heads.T * heads.C + at_head,
                                                  weights, sums, out + b * heads.C + at_head);
                            }
                          });
  });
}

}  // namespace zerolab

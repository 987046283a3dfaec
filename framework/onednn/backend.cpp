#include "framework/onednn/backend.h"

#include <omp.h>

#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/vector.h"

namespace zerolab {

bool onednn_is_available() { return true; }

std::unique_ptr<Backend> make_onednn_backend() { return std::make_unique<OnednnBackend>(); }

void OnednnBackend::bind_thread(int threads) const { omp_set_num_threads(threads); }

void OnednnBackend::reduce_in_order(std::span<const std::byte* const> sources, DType dtype,
                                    double divisor, std::span<std::byte> out) {
  if (dtype != DType::kFloat32) {
    PlainBackend::reduce_in_order(sources, dtype, divisor, out);
    return;
  }
  const auto divide_by = static_cast<float>(divisor);
  const auto floats_of = [](const std::byte* memory) {
    return reinterpret_cast<const float*>(memory);
  };
  const auto numel = static_cast<int64_t>(out.size() / sizeof(float));
  onednn::for_vectors(0, numel, [&](int64_t i, auto lanes) {
    onednn::Vector sum = lanes.load(floats_of(sources[0]) + i);
    for (const std::byte* source : sources.subspan(1)) {
      sum += lanes.load(floats_of(source) + i);
    }
    lanes.store(reinterpret_cast<float*>(out.data()) + i, sum / divide_by);
  });
}

}  // namespace zerolab

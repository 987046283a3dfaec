#include "framework/onednn/backend.h"

#include <omp.h>

#include "framework/onednn/onednn_backend.h"
#include "framework/onednn/vector.h"

namespace zerolab {

bool onednn_is_available() { return true; }

std::unique_ptr<Backend> make_onednn_backend() { return std::make_unique<OnednnBackend>(); }

void OnednnBackend::bind_thread(int threads) const { omp_set_num_threads(threads); }

void OnednnBackend::reduce_in_order(std::span<const float* const> sources, double divisor,
                                    std::span<float> out) {
  const auto divide_by = static_cast<float>(divisor);
  onednn::for_vectors(0, static_cast<int64_t>(out.size()), [&](int64_t i, auto lanes) {
    onednn::Vector sum = lanes.load(sources[0] + i);
    for (const float* source : sources.subspan(1)) {
      sum += lanes.load(source + i);
    }
    lanes.store(out.data() + i, sum / divide_by);
  });
}

}  // namespace zerolab

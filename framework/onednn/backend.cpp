#include "framework/onednn/backend.h"

#include "framework/onednn/kernel.h"
#include "framework/onednn/onednn_backend.h"

namespace zerolab {

bool onednn_is_available() { return true; }

std::string onednn_version() {
  const dnnl_version_t& version = *dnnl_version();
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

std::unique_ptr<Backend> make_onednn_backend() { return std::make_unique<OnednnBackend>(); }

void OnednnBackend::bind_thread(int /*rank*/, int threads) const { omp_set_num_threads(threads); }

void OnednnBackend::reduce_in_order(std::span<const std::byte* const> sources, DType dtype,
                                    double divisor, std::span<std::byte> out) {
  const auto divide_by = static_cast<float>(divisor);
  onednn::with_type(dtype, [&]<typename T>(T) {
    const auto elements_of = [](const std::byte* memory) {
      return reinterpret_cast<const T*>(memory);
    };
    const auto numel = static_cast<int64_t>(out.size() / sizeof(T));
    onednn::for_vectors(0, numel, [&](int64_t i, auto lanes) {
      onednn::Vector sum = lanes.load(elements_of(sources[0]) + i);
      for (const std::byte* source : sources.subspan(1)) {
        sum += lanes.load(elements_of(source) + i);
      }
      lanes.store(reinterpret_cast<T*>(out.data()) + i, sum / divide_by);
    });
  });
}

}  // namespace zerolab

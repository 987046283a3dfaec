#include "framework/plain/backend.h"

#include <algorithm>
#include <vector>

#include "framework/plain/kernel.h"
#include "framework/plain/plain_backend.h"

namespace zerolab {

std::unique_ptr<Backend> make_plain_backend() { return std::make_unique<PlainBackend>(); }

std::unique_ptr<Allocator> PlainBackend::make_allocator(MemoryLedger& ledger, bool poison) const {
  return std::make_unique<CpuAllocator>(ledger, poison);
}

std::unique_ptr<RankStreams> PlainBackend::make_streams(StreamMode mode, uint64_t lazy_seed) const {
  return make_cpu_streams(mode, lazy_seed);
}

void PlainBackend::bind_thread(int /*rank*/, int /*threads*/) const {}

void PlainBackend::copy_from_host(Stream& stream, std::span<const std::byte> source,
                                  const Tensor& out) {
  if (static_cast<CpuStream&>(stream).is_immediate()) {
    std::copy(source.begin(), source.end(), out.raw());
    return;
  }
  // The caller may reuse its memory before the work runs.
  plain::launch(stream, [bytes = std::vector<std::byte>(source.begin(), source.end()),
                         out = out.raw()] { std::copy(bytes.begin(), bytes.end(), out); });
}

void PlainBackend::copy_to_host(const Tensor& source, std::span<std::byte> out) {
  std::copy_n(source.raw(), source.bytes(), out.begin());
}

void PlainBackend::copy_at_once(std::span<const std::byte> source, std::byte* out) {
  std::copy(source.begin(), source.end(), out);
}

void PlainBackend::reduce_in_order(std::span<const std::byte* const> sources, DType dtype,
                                   double divisor, std::span<std::byte> out) {
  const auto divide_by = static_cast<float>(divisor);
  with_float_type(dtype, [&]<typename T>(T) {
    const auto element = [](const std::byte* memory, size_t i) {
      return static_cast<float>(widened(reinterpret_cast<const T*>(memory)[i]));
    };
    for (size_t i = 0; i < out.size() / sizeof(T); ++i) {
      float sum = element(sources[0], i);
      for (size_t s = 1; s < sources.size(); ++s) {
        sum += element(sources[s], i);
      }
      reinterpret_cast<T*>(out.data())[i] = rounded<T>(sum / divide_by);
    }
  });
}

}  // namespace zerolab

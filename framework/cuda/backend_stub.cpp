#include "framework/core/error.h"
#include "framework/cuda/backend.h"

namespace zerolab {
namespace {

constexpr std::string_view kMissing =
    "this program was built without CUDA; it needs the CUDA toolkit when it is built";

}  // namespace

cuda::Devices cuda::find_devices() { return {{}, std::string(kMissing)}; }

std::map<std::string, std::string> cuda::library_versions() { return {}; }

void cuda::share_memory_between_devices(int /*num_devices*/) {}

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& /*options*/) {
  fail("cuda", "{}", kMissing);
}

}  // namespace zerolab

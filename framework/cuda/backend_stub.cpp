#include "framework/core/error.h"
#include "framework/cuda/backend.h"

namespace zerolab {

cuda::Devices cuda::find_devices() {
  return {{}, "this program was built without CUDA (build with ZEROLAB_CUDA=ON)"};
}

std::unique_ptr<Backend> make_cuda_backend(int /*device*/) {
  fail("cuda", "{}; use launch.device = \"cpu\"", cuda::find_devices().missing);
}

}  // namespace zerolab

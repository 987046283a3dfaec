#include "tests/comm/ranks.h"
#include "framework/comm/nccl.h"
#include "framework/cuda/backend.h"
#include "tests/cuda/both.h"

namespace zerolab {

// So little memory for staging that most sums of the tests are made in pieces.
std::unique_ptr<RankGroup> make_test_group(int size, const RanksOptions& options) {
  set_num_devices(size);
  set_device_seed(options.lazy_seed);
  return make_nccl_group(size, {.timeout_s = options.group.timeout_s, .staging_bytes = 4096});
}
std::unique_ptr<Backend> make_test_backend() { return make_cuda_backend(); }

}  // namespace zerolab

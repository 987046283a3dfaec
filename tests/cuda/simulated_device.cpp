#include "cuda_sim/simulator.h"
#include "tests/cuda/both.h"

namespace zerolab {

void set_device_seed(uint64_t seed) { cuda_sim::reset(seed); }

}  // namespace zerolab

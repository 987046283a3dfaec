#include "cuda_sim/simulator.h"
#include "tests/cuda/device.h"

namespace zerolab {

void set_device_seed(uint64_t seed) { cuda_sim::reset(seed); }
void set_num_devices(int count) { cuda_sim::set_devices(count); }
void check_device_memory() { cuda_sim::check_memory(); }

}  // namespace zerolab

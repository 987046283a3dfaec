#pragma once

#include <cstdint>

// The device that the tests run on: simulated_device.cpp or real_device.cpp.

namespace zerolab {

/// Seeds the order in which a simulated device works; a real one has its own.
void set_device_seed(uint64_t seed);
/// How many simulated devices there are; throws where there are fewer real ones.
void set_num_devices(int count);
/// Throws where a simulated device's memory was written outside its blocks.
void check_device_memory();

}  // namespace zerolab

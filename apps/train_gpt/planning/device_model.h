#pragma once

#include <string>

#include "apps/train_gpt/config/config.h"
#include "framework/comm/local.h"
#include "framework/meta/modelled_speed.h"

namespace zerolab {
class Backend;
}

namespace zerolab::app {

/// What a plan takes one rank's device and link to be.
struct DeviceModel {
  ModelledSpeed speed;
  LocalOptions link;
  int64_t memory = 0;  ///< bytes of a rank
  std::string text;    ///< two lines that say so
};

/// The machine of `[launch]` and `[comm]`. `tflops` and `memory_bandwidth_gbps` (1e9 bytes a
/// second) are a rank's. Where `tflops` is 0 both are measured here, which takes about a second, as
/// the share of one of `launch.ranks` ranks: the backend's product of the model's MLP, and its
/// addition of arrays. A bandwidth that is neither given nor measured is infinite.
DeviceModel make_device_model(const RunConfig& config, Backend& backend, double tflops,
                              double memory_bandwidth_gbps);

}  // namespace zerolab::app

#pragma once

namespace zerolab {

/// How fast the device is that a dry run models; what is 0 takes no time.
struct ModelledSpeed {
  double flops_per_s = 0.0;  ///< of matrix products
  double bytes_per_s = 0.0;  ///< read and written in memory
};

}  // namespace zerolab

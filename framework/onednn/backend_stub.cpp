#include "framework/core/error.h"
#include "framework/onednn/backend.h"

namespace zerolab {

bool onednn_is_available() { return false; }

std::string onednn_version() { return ""; }

std::unique_ptr<Backend> make_onednn_backend() {
  fail("onednn",
       "this program was built without oneDNN; use launch.backend = \"plain\", or build with "
       "ZEROLAB_ONEDNN=ON");
}

}  // namespace zerolab

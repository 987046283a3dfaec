#include "framework/comm/nccl.h"
#include "framework/core/error.h"

namespace zerolab {

bool nccl_is_available() { return false; }

std::string nccl_version() { return ""; }

std::unique_ptr<RankGroup> make_nccl_group(int /*size*/, const NcclOptions& /*options*/) {
  fail("comm",
       "this program was built without NCCL; ranks with a GPU each need it: install it and build "
       "again, or let the ranks share one GPU");
}

}  // namespace zerolab

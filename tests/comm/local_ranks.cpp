#include "framework/plain/backend.h"
#include "tests/comm/ranks.h"

namespace zerolab {

std::unique_ptr<RankGroup> make_test_group(int size, const RanksOptions& options) {
  return std::make_unique<LocalGroup>(size, options.group);
}
std::unique_ptr<Backend> make_test_backend() { return make_plain_backend(); }

}  // namespace zerolab

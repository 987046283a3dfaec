#include "framework/comm/nccl.h"

#include <fmt/core.h>

#include "framework/comm/nccl_communicator.h"
#include "framework/comm/nccl_ranks.h"

namespace zerolab {
namespace {

class NcclGroup final : public RankGroup {
 public:
  NcclGroup(int size, const NcclOptions& options)
      : options_(options), ranks_(std::make_unique<NcclRanks>(size, options)) {}

 private:
  GroupState& state() const override { return *ranks_; }
  std::unique_ptr<Communicator> make_communicator(RankContext& context) override {
    return std::make_unique<NcclCommunicator>(*ranks_, context, options_);
  }

  const NcclOptions options_;
  const std::unique_ptr<NcclRanks> ranks_;
};

}  // namespace

bool nccl_is_available() { return true; }

std::string nccl_version() {
  int version = 0;
  ncclGetVersion(&version);
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::unique_ptr<RankGroup> make_nccl_group(int size, const NcclOptions& options) {
  return std::make_unique<NcclGroup>(size, options);
}

}  // namespace zerolab

#include "apps/train_gpt/training/dry_run.h"

#include "apps/train_gpt/setup/launch.h"
#include "framework/comm/meta.h"
#include "framework/meta/backend.h"

namespace zerolab::app {

DryRun::DryRun(const RunConfig& config, int64_t vocab_size, int rank, const Backend& imitated,
               const ModelledSpeed& speed, const LocalOptions& link)
    : backend_(make_meta_backend(imitated, speed)),
      context_(rank_options(config, rank), *backend_),
      communicator_(make_meta_communicator(context_, plan_group(config).communicator_bytes, link)),
      trainer_(context_, *communicator_, config, vocab_size, nullptr) {}

DryRun::~DryRun() = default;

}  // namespace zerolab::app

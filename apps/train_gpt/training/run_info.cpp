#include "apps/train_gpt/training/run_info.h"

namespace zerolab::app {
namespace {

zero::CommunicationBytes mean_communication_bytes(const zero::Layout& layout,
                                                  const zero::StagePlan& plan) {
  zero::CommunicationBytes mean;
  const int ranks = layout.options().world_size;
  for (int rank = 0; rank < ranks; ++rank) {
    const zero::CommunicationBytes bytes = zero::communication_bytes(layout, plan, rank);
    mean.formula = bytes.formula;
    mean.gradients += bytes.gradients;
    mean.parameters += bytes.parameters;
  }
  mean.gradients /= ranks;
  mean.parameters /= ranks;
  return mean;
}

}  // namespace

RunInfo describe_run(const zero::Engine& engine, int64_t vocab_size,
                     std::string_view communicator) {
  const zero::Layout& layout = engine.layout();
  return {.plan = engine.plan(),
          .communicator = communicator,
          .vocab_size = vocab_size,
          .num_params = layout.num_params(),
          .padding = layout.padding(),
          .num_buckets = static_cast<int64_t>(layout.buckets().size()),
          .layout = std::make_shared<const zero::Layout>(layout),
          .state = zero::state_bytes(layout, engine.plan(),
                                     static_cast<int>(engine.optimizer().states().size())),
          .communication = mean_communication_bytes(layout, engine.plan())};
}

}  // namespace zerolab::app

// Two ranks train a small network for two steps under ZeRO-2. Status 0 if the loss falls.
#include <cstdio>
#include <memory>
#include <vector>

#include "framework/comm/local.h"
#include "framework/onednn/backend.h"
#include "framework/ops/cross_entropy.h"
#include "framework/plain/backend.h"
#include "models/mlp.h"
#include "optim/optimizer.h"
#include "zero/engine.h"

int main() {
  using namespace zerolab;
  const std::unique_ptr<Backend> backend =
      onednn_is_available() ? make_onednn_backend() : make_plain_backend();
  const int ranks = 2;
  std::vector<double> losses;
  LocalGroup group(ranks);
  run_ranks(group, [&](int rank) {
    RankContext context({.rank = rank, .world_size = ranks}, *backend);
    const std::unique_ptr<Communicator> communicator = group.communicator(context);
    const Mlp model({.context = context, .seed = 1, .name = ""}, {2, 8, 2});
    const auto optimizer = optim::make_optimizer({.name = "adamw"});
    zero::Engine engine(context, *communicator, model.parameters(), *optimizer, {.stage = 2});
    const AbortOnUnwind abort_on_unwind(*communicator);
    const std::vector<float> positions = {0.0F, 1.0F, 1.0F, 0.0F};
    const std::vector<int32_t> classes = {0, 1};
    const Tensor x = Tensor::from_host(context, Shape{2, 2}, std::span<const float>(positions));
    const Tensor labels = Tensor::from_host(context, Shape{2}, std::span<const int32_t>(classes));
    for (int step = 0; step < 2; ++step) {
      engine.begin_micro_batch();
      engine.backward(ops::cross_entropy(model.forward(x), labels));
      engine.end_micro_batch();
      const zero::StepResult done = engine.step({.learning_rate = 0.1});
      if (rank == 0) {
        losses.push_back(done.loss);
      }
    }
  });
  std::printf("loss %.6f, then %.6f\n", losses[0], losses[1]);
  return losses[1] < losses[0] ? 0 : 1;
}

#include "examples/vision/vision.h"

#include <algorithm>
#include <memory>

#include "checkpoint/writer.h"
#include "examples/vision/transformer.h"
#include "framework/comm/local.h"
#include "framework/core/philox.h"
#include "framework/onednn/backend.h"
#include "framework/ops/cross_entropy.h"
#include "framework/plain/backend.h"
#include "zero/engine.h"

namespace zerolab::examples {
namespace {

constexpr int64_t kTestImages = 512;
constexpr int64_t kFirstTestImage = int64_t{1} << 40;  // beyond every image that is trained on
constexpr uint64_t kSeed = 1;

// --- the data ---

struct Images {
  Tensor pixels;  ///< [n, kSide, kSide]
  Tensor classes;
  std::vector<int32_t> host_classes;
};

/// Images `first`, `first + 1`, …: each is the same on whatever rank it is made.
Images make_images(RankContext& context, int64_t first, int64_t count) {
  std::vector<float> pixels;
  std::vector<int32_t> classes;
  for (int64_t i = first; i < first + count; ++i) {
    const auto bits = philox(kSeed, static_cast<uint64_t>(i), 0);
    const auto direction = static_cast<int32_t>(bits[0] % kClasses);
    const auto offset = static_cast<int64_t>(bits[1] % (kSide - 4)) + 2;
    for (int64_t y = 0; y < kSide; ++y) {
      for (int64_t x = 0; x < kSide; ++x) {
        const int64_t at[kClasses] = {y, x, (x + y) % kSide, (x - y + kSide) % kSide};
        const auto noise = philox(kSeed + 1, static_cast<uint64_t>(i), y * kSide + x);
        pixels.push_back((at[direction] == offset ? 1.0F : 0.0F) + uniform_from_bits(noise[0]) -
                         0.5F);
      }
    }
    classes.push_back(direction);
  }
  return {Tensor::from_host(context, {count, kSide, kSide}, std::span<const float>(pixels)),
          Tensor::from_host(context, {count}, std::span<const int32_t>(classes)), classes};
}

double accuracy_of(RankContext& context, const VisionTransformer& model) {
  const NoGradScope no_grad(context);
  const Images images = make_images(context, kFirstTestImage, kTestImages);
  const std::vector<float> logits = model.forward(images.pixels).to_host<float>();
  int64_t right = 0;
  for (int64_t i = 0; i < kTestImages; ++i) {
    const auto row = logits.begin() + i * kClasses;
    right += std::max_element(row, row + kClasses) - row == images.host_classes[i] ? 1 : 0;
  }
  return static_cast<double>(right) / kTestImages;
}

// --- one rank ---

void train_rank(const VisionOptions& options, checkpoint::Writer* writer, RankContext& context,
                Communicator& communicator, VisionResult& result) {
  const VisionTransformer model({.context = context, .seed = kSeed, .name = ""});
  const auto optimizer = optim::make_optimizer({.name = options.optimizer, .weight_decay = 0.01});
  zero::Engine engine(context, communicator, model.parameters(), *optimizer,
                      {.stage = options.stage, .reduce_bucket_size = 4096});
  const AbortOnUnwind abort_on_unwind(communicator);
  int64_t first_step = 0;
  const checkpoint::Folder folder(options.checkpoints);
  if (writer != nullptr && !folder.steps().empty()) {
    const checkpoint::Checkpoint saved(checkpoint::find_checkpoint(folder.path()));
    checkpoint::restore(saved, context, engine, model.parameters());
    first_step = saved.manifest().state.step;
  }
  const int64_t rows = options.batch_size / options.ranks;
  for (int64_t step = first_step; step < options.steps; ++step) {
    const int64_t first_image = (step * options.ranks + context.rank()) * rows;
    const Images images = make_images(context, first_image, rows);
    engine.begin_micro_batch();
    engine.backward(ops::cross_entropy(model.forward(images.pixels), images.classes));
    engine.end_micro_batch();
    const zero::StepResult done = engine.step({.learning_rate = options.learning_rate});
    if (context.rank() == 0) {
      result.losses.push_back(done.loss);
    }
  }
  engine.wait_for_parameters();
  if (context.rank() == 0) {
    result.memory = context.ledger().snapshot();
    result.memory_table = context.ledger().to_string();
    result.num_params = engine.layout().num_params();
    result.padding = engine.layout().padding();
    result.accuracy = accuracy_of(context, model);
    for (const Parameter* parameter : model.parameters()) {
      const std::vector<float> values = parameter->value().to_host<float>();
      result.weights.insert(result.weights.end(), values.begin(), values.end());
    }
  }
  if (writer != nullptr) {
    checkpoint::Snapshot snapshot(context, engine, model.parameters());
    checkpoint::RankWriter rank_writer(*writer, context.rank(), snapshot);
    checkpoint::Manifest manifest;
    manifest.state.step = options.steps;
    manifest.state.engine = engine.state();
    manifest.parameters = checkpoint::describe(model.parameters());
    manifest.tensors = checkpoint::tensors_of(engine);
    rank_writer.save(manifest);
  }
}

}  // namespace

VisionResult train_vision(const VisionOptions& options) {
  const std::unique_ptr<Backend> backend =
      onednn_is_available() ? make_onednn_backend() : make_plain_backend();
  std::unique_ptr<checkpoint::Writer> writer;
  if (!options.checkpoints.empty()) {
    writer = std::make_unique<checkpoint::Writer>(checkpoint::Folder(options.checkpoints),
                                                  options.ranks, 0);
  }
  LocalGroup group(options.ranks);
  VisionResult result;
  run_ranks(group, [&](int rank) {
    RankContext context({.rank = rank, .world_size = options.ranks}, *backend);
    const std::unique_ptr<Communicator> communicator = group.communicator(context);
    train_rank(options, writer.get(), context, *communicator, result);
  });
  return result;
}

}  // namespace zerolab::examples

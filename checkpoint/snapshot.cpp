#include "checkpoint/snapshot.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "checkpoint/component.h"
#include "framework/core/error.h"
#include "framework/tensor/backend.h"

namespace zerolab::checkpoint {
namespace {

constexpr int64_t kSnapshotChunk = int64_t{1}
                                   << 20;  // elements; a multiple of the blocks of checksums

/// Elements [begin, end) of the parameter that `segment` lies in.
Piece piece_of(const zero::Layout& layout, const zero::Segment& segment,
               const std::string& tensor) {
  const int64_t begin = segment.flat_offset - layout.ranges()[segment.parameter].offset;
  return {layout.parameters()[segment.parameter].name, tensor, begin, begin + segment.numel};
}

void require_same_model(const Checkpoint& checkpoint, const std::vector<Parameter*>& parameters) {
  const std::vector<ParameterInfo>& saved = checkpoint.manifest().parameters;
  std::vector<ParameterInfo> wanted = describe(parameters);
  for (const ParameterInfo& parameter : wanted) {
    const auto found = std::ranges::find(saved, parameter.name, &ParameterInfo::name);
    require(found != saved.end(), kComponent, "'{}' has no parameter '{}', which the model has",
            checkpoint.folder().string(), parameter.name);
    require(found->shape == parameter.shape, kComponent,
            "parameter '{}' of '{}' has another shape; got [{}], the model expects [{}]",
            parameter.name, checkpoint.folder().string(), fmt::join(found->shape, ", "),
            fmt::join(parameter.shape, ", "));
  }
  for (const ParameterInfo& parameter : saved) {
    require(std::ranges::find(wanted, parameter.name, &ParameterInfo::name) != wanted.end(),
            kComponent, "'{}' has a parameter '{}' that the model does not have",
            checkpoint.folder().string(), parameter.name);
  }
}

/// Reads elements of one tensor into `out`, of any floating dtype, some at a time.
void read_into(Reader& reader, const Piece& piece, const Tensor& out) {
  RankContext& context = out.context();
  std::vector<float> values;
  for (int64_t begin = 0; begin < out.numel(); begin += kSnapshotChunk) {
    values.resize(std::min(kSnapshotChunk, out.numel() - begin));
    reader.read(piece.parameter, piece.tensor, piece.begin + begin, values);
    const Tensor staged =
        Tensor::from_host(context, Shape{std::ssize(values)}, std::span<const float>(values));
    context.backend().copy(context.compute(), staged, out.range(begin, std::ssize(values)));
    context.compute().synchronize();
  }
}

}  // namespace

std::vector<std::string> tensors_of(const zero::Engine& engine) {
  std::vector<std::string> tensors = engine.optimizer().state_names();
  tensors.insert(tensors.begin(), kWeight);
  return tensors;
}

Snapshot::Snapshot(RankContext& context, const zero::Engine& engine,
                   const std::vector<Parameter*>& parameters)
    : context_(context), engine_(engine) {
  const std::vector<std::string> tensors = tensors_of(engine);
  for (const zero::Segment& segment : engine.optimizer().partition_segments()) {
    for (const std::string& tensor : tensors) {
      pieces_.push_back(piece_of(engine.layout(), segment, tensor));
    }
  }
  for (Parameter* parameter : parameters) {
    if (parameter->frozen() && context.rank() == 0 && parameter->numel() > 0) {
      frozen_.push_back(parameter);
      pieces_.push_back({parameter->name(), kWeight, 0, parameter->numel()});
    }
  }
  for (const Piece& piece : pieces_) {
    bytes_ += piece.bytes();
  }
  context.ledger().add(Category::kCheckpoint, bytes_, Shape{bytes_ / 4}, DType::kFloat32);
  if (context.backend().computes()) {
    // Written once, so that the first copy of a step does not pay for the pages.
    data_ = std::make_unique<std::byte[]>(bytes_);
  }
}

Snapshot::~Snapshot() { context_.ledger().remove(Category::kCheckpoint, bytes_); }

void Snapshot::take() {
  std::vector<Tensor> widened;  // lives until the copies are done
  context_.compute().synchronize();
  std::byte* out = data_.get();
  const auto copy = [&](const Tensor& tensor) {
    context_.backend().copy_to_host(tensor, {out, static_cast<size_t>(tensor.bytes())});
    out += tensor.bytes();
  };
  for (const zero::Segment& segment : engine_.optimizer().partition_segments()) {
    copy(engine_.optimizer().weights(segment));
    for (const Tensor& state : engine_.optimizer().states(segment)) {
      copy(state);
    }
  }
  for (const Parameter* parameter : frozen_) {
    const Tensor wide = Tensor::empty(context_, Shape{parameter->numel()}, DType::kFloat32);
    context_.backend().copy(context_.compute(), parameter->value().view(wide.shape()), wide);
    context_.compute().synchronize();
    copy(wide);
  }
}

int64_t restore(const Checkpoint& checkpoint, RankContext& context, zero::Engine& engine,
                const std::vector<Parameter*>& parameters) {
  require_same_model(checkpoint, parameters);
  const CategoryScope scope(context, Category::kCheckpoint);
  const std::vector<std::string> states = engine.optimizer().state_names();
  // Names may be shared: the moment of AdamW is none of Lion's.
  const std::vector<std::string>& saved = checkpoint.manifest().tensors;
  require(states.empty() || saved.size() <= states.size() + 1, kComponent,
          "'{}' is another optimizer's; got {} of each parameter, expected {}; resume with the "
          "optimizer that saved it",
          checkpoint.folder().string(), fmt::join(saved, ", "),
          fmt::join(tensors_of(engine), ", "));
  Reader reader(checkpoint);
  for (const zero::Segment& segment : engine.optimizer().updated_segments()) {
    read_into(reader, piece_of(engine.layout(), segment, kWeight),
              engine.optimizer().weights(segment));
    const std::vector<Tensor> homes = engine.optimizer().states(segment);
    for (size_t i = 0; i < states.size(); ++i) {
      read_into(reader, piece_of(engine.layout(), segment, states[i]), homes[i]);
    }
  }
  for (const Parameter* parameter : parameters) {
    if (parameter->frozen()) {
      read_into(reader, {parameter->name(), kWeight, 0, parameter->numel()}, parameter->value());
    }
  }
  engine.resume(checkpoint.manifest().state.engine);
  return reader.bytes_read();
}

void restore_weights(const Checkpoint& checkpoint, const std::vector<Parameter*>& parameters) {
  require_same_model(checkpoint, parameters);
  Reader reader(checkpoint);
  for (const Parameter* parameter : parameters) {
    read_into(reader, {parameter->name(), kWeight, 0, parameter->numel()}, parameter->value());
  }
}

}  // namespace zerolab::checkpoint

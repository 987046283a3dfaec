#include "zero/control.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "framework/core/exact_sum.h"
#include "framework/tensor/backend.h"

namespace zerolab::zero {
namespace {

/// One rank's words: its gradient statistics, then these, then one fp32 loss a micro-batch.
constexpr int kTokensWord = kStatisticsWords;
constexpr int kStopWord = kStatisticsWords + 1;
constexpr int kSourceWord = kStatisticsWords + 2;
constexpr int kLossWord = kStatisticsWords + 3;

void write(RankContext& context, const Tensor& out, std::initializer_list<int64_t> words) {
  context.backend().copy_from_host(context.compute(), std::as_bytes(std::span(words)), out);
}

}  // namespace

Control::Control(RankContext& context, Communicator& communicator, const StagePlan& plan,
                 bool traces)
    : context_(context),
      communicator_(communicator),
      micro_batches_(plan.micro_batches),
      alignment_(plan.alignment),
      words_(kLossWord + (plan.micro_batches + 1) / 2) {
  const CategoryScope scope(context, Category::kControl);
  all_ = Tensor::zeros(context, Shape{communicator.size() * words_}, DType::kInt64);
  mine_ = all_.range(communicator.rank() * words_, words_);
  if (traces) {
    local_ = Tensor::empty(context, Shape{kStatisticsWords}, DType::kInt64);
    clear(local_);
  }
}

void Control::add_loss(int micro_batch, const Tensor& loss, bool first) {
  const Tensor losses = mine_.range(kLossWord, words_ - kLossWord).reinterpret(DType::kFloat32);
  const Tensor slot = losses.range(micro_batch, 1);
  if (first) {
    context_.backend().copy(context_.compute(), loss.view(Shape{1}), slot);
  } else {
    context_.backend().accumulate(context_.compute(), loss.view(Shape{1}), slot);
  }
}

void Control::set_gradients(const GradientStorage& gradients,
                            const std::vector<Segment>& partition) {
  const ScopedSpan span = context_.span(SpanKind::kOptimizer, "norm");
  const Tensor statistics = mine_.range(0, kStatisticsWords);
  clear(statistics);
  for (const Segment& segment : partition) {
    context_.backend().gradient_statistics(context_.compute(), gradients.at(segment), alignment_,
                                           segment.flat_offset, statistics);
  }
}

void Control::clear(const Tensor& statistics) {
  context_.backend().fill(context_.compute(), statistics.range(0, kExactSumWords), 0.0);
  write(context_, statistics.range(kFirstNonFiniteWord, 2), {kAllFinite, kNone});
}

StepResult Control::exchange(int64_t tokens, bool stop, double loss_scale, const Layout& layout) {
  write(context_, mine_.range(kTokensWord, 3), {tokens, stop ? 1 : 0, kAllFinite});
  if (local_.defined()) {
    context_.backend().copy(context_.compute(), local_.range(kFirstNonFiniteWord, 1),
                            mine_.range(kSourceWord, 1));
    clear(local_);
  }
  const ScopedSpan span = context_.span(SpanKind::kCommExposed, "control");
  communicator_.all_gather(context_.compute(), all_, {.purpose = Purpose::kControl});
  context_.compute().synchronize();
  if (!context_.backend().computes()) {
    return {.loss_scale = loss_scale, .skipped = {}};
  }
  std::vector<int64_t> words(all_.numel());
  all_.copy_to_host(std::span<int64_t>(words));
  return read(std::move(words), loss_scale, layout);
}

StepResult Control::read(std::vector<int64_t> words, double loss_scale,
                         const Layout& layout) const {
  StepResult result = {.loss_scale = loss_scale, .skipped = {}};
  std::vector<int64_t> sum(kExactSumWords);
  std::vector<int> sources;
  int64_t first = kAllFinite;
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    const std::span<int64_t> row(words.data() + rank * words_, words_);
    normalize_exact_sum(row);
    for (int i = 0; i < kExactSumWords; ++i) {
      sum[i] += row[i];
    }
    if (row[kFirstNonFiniteWord] < first) {
      first = row[kFirstNonFiniteWord];
      result.skipped.emplace();
      result.skipped->owner_rank = rank;
      result.skipped->kind = row[kNonFiniteKindWord] == kNaN ? "NaN" : "inf";
    }
    if (row[kSourceWord] != kAllFinite) {
      sources.push_back(rank);
    }
    result.tokens += row[kTokensWord];
    result.stop = result.stop || row[kStopWord] != 0;
    for (int m = 0; m < micro_batches_; ++m) {
      const auto pair = std::bit_cast<std::array<float, 2>>(row[kLossWord + m / 2]);
      result.loss += pair[m % 2];
    }
  }
  result.loss /= static_cast<double>(communicator_.size()) * micro_batches_;
  result.gradient_norm = std::sqrt(round_exact_sum(sum)) / loss_scale;
  if (result.skipped.has_value()) {
    const int parameter = layout.parameter_at(first);
    result.skipped->parameter = layout.parameters()[parameter].name;
    result.skipped->index = first - layout.ranges()[parameter].offset;
    result.skipped->source_ranks = std::move(sources);
    result.gradient_norm = result.skipped->kind == "NaN" ? std::numeric_limits<double>::quiet_NaN()
                                                         : std::numeric_limits<double>::infinity();
  }
  return result;
}

}  // namespace zerolab::zero

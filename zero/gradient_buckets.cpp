#include "zero/gradient_buckets.h"

#include <algorithm>

#include "framework/core/error.h"
#include "framework/tensor/backend.h"

namespace zerolab::zero {

GradientBuckets::GradientBuckets(RankContext& context, const Layout& layout, const StagePlan& plan,
                                 const std::vector<Parameter*>& parameters, BucketMemory& memory,
                                 GradientReducer& reducer)
    : context_(context),
      layout_(layout),
      plan_(plan),
      parameters_(parameters),
      memory_(memory),
      reducer_(reducer),
      incomplete_(layout.buckets().size()),
      contributed_(parameters.size()),
      completed_(parameters.size()) {
  for (size_t index = 0; index < parameters_.size(); ++index) {
    index_of_[parameters_[index]] = static_cast<int>(index);
    parameters_[index]->set_sink(this);
  }
}

GradientBuckets::~GradientBuckets() {
  for (Parameter* parameter : parameters_) {
    parameter->set_sink(nullptr);
  }
}

bool GradientBuckets::reduces_now() const {
  return plan_.reduces_each_micro_batch || micro_batch_ == plan_.micro_batches - 1;
}

void GradientBuckets::begin_micro_batch(int index) {
  micro_batch_ = index;
  last_backward_ = false;
  next_bucket_ = 0;
  std::ranges::fill(completed_, 0);
  if (index == 0 || plan_.reduces_each_micro_batch) {
    std::ranges::fill(contributed_, 0);
  }
  for (size_t bucket = 0; bucket < incomplete_.size(); ++bucket) {
    incomplete_[bucket] = static_cast<int>(layout_.buckets()[bucket].parameters.size());
  }
}

autograd::Destination GradientBuckets::open(Parameter& parameter) {
  const int index = index_of_.at(&parameter);
  require(!completed_[index], "zero",
          "the gradient of {} arrived after it was reduced; declare only the micro-batch's last "
          "backward final",
          parameter.name());
  const bool accumulate = contributed_[index] != 0;
  contributed_[index] = 1;
  return {memory_.gradient(index).view(parameter.shape()), accumulate};
}

void GradientBuckets::ready(Parameter& parameter) {
  if (last_backward_ && reduces_now()) {
    complete(index_of_.at(&parameter));
  }
}

void GradientBuckets::end_micro_batch() {
  if (!reduces_now()) {
    return;
  }
  for (const Bucket& bucket : layout_.buckets()) {
    for (const int parameter : bucket.parameters) {
      if (completed_[parameter]) {
        continue;
      }
      if (!contributed_[parameter]) {
        context_.backend().fill(context_.compute(), open(*parameters_[parameter]).tensor, 0.0);
      }
      complete(parameter);
    }
  }
}

void GradientBuckets::complete(int parameter) {
  completed_[parameter] = 1;
  --incomplete_[layout_.ranges()[parameter].bucket];
  for (; next_bucket_ < std::ssize(incomplete_) && incomplete_[next_bucket_] == 0; ++next_bucket_) {
    reducer_.reduce(next_bucket_, memory_.take(next_bucket_),
                    plan_.reduces_each_micro_batch && micro_batch_ > 0);
  }
}

}  // namespace zerolab::zero

#include "framework/comm/agreement.h"

#include <algorithm>
#include <span>

#include "framework/core/backend.h"
#include "framework/core/rank_context.h"

namespace zerolab {

std::optional<Disagreement> find_disagreement(RankContext& context, Communicator& communicator,
                                              const std::vector<uint64_t>& numbers) {
  const auto count = static_cast<int64_t>(numbers.size());
  std::vector<int64_t> words(communicator.size() * count);
  std::copy(numbers.begin(), numbers.end(), words.begin() + communicator.rank() * count);
  const CategoryScope scope(context, Category::kControl);
  const Tensor all = Tensor::from_host(context, Shape{static_cast<int64_t>(words.size())},
                                       std::span<const int64_t>(words));
  communicator.all_gather(context.compute(), all, {.purpose = Purpose::kControl});
  words = all.to_host<int64_t>();
  for (size_t i = 0; i < words.size() && context.backend().computes(); ++i) {
    const int64_t index = static_cast<int64_t>(i) % count;
    if (words[i] != words[index]) {
      return Disagreement{index, static_cast<int>(static_cast<int64_t>(i) / count)};
    }
  }
  return std::nullopt;
}

}  // namespace zerolab

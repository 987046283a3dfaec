#include "framework/comm/agreement.h"

#include <algorithm>
#include <span>

#include "framework/core/error.h"
#include "framework/core/hash.h"
#include "framework/tensor/backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab {

void require_agreement(RankContext& context, Communicator& communicator,
                       const std::vector<uint64_t>& numbers,
                       const std::function<std::string(size_t index)>& name) {
  const auto count = static_cast<int64_t>(numbers.size());
  const int64_t total = communicator.size() * count;
  std::vector<int64_t> words(total);
  std::copy(numbers.begin(), numbers.end(), words.begin() + communicator.rank() * count);
  const CategoryScope scope(context, Category::kControl);
  const Tensor all = Tensor::from_host(context, Shape{total}, std::span<const int64_t>(words));
  communicator.all_gather(context.compute(), all, {.purpose = Purpose::kControl});
  words = all.to_host<int64_t>();
  for (int64_t i = 0; i < total && context.backend().computes(); ++i) {
    require(words[i] == words[i % count], "comm", "{} on rank {} differs from rank 0's",
            name(i % count), i / count);
  }
}

std::vector<uint64_t> hashes_of(RankContext& context, const std::vector<Parameter*>& parameters) {
  context.compute().synchronize();
  std::vector<uint64_t> hashes;
  for (const Parameter* parameter : parameters) {
    std::string bytes(parameter->value().bytes(), '\0');
    context.backend().copy_to_host(parameter->value(), std::as_writable_bytes(std::span(bytes)));
    hashes.push_back(hash_of(bytes));
  }
  return hashes;
}

}  // namespace zerolab

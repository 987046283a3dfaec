#include "tests/comm/ranks.h"

#include "framework/tensor/backend.h"

namespace zerolab {

void on_ranks(int size, const RankBody& body, const RanksOptions& options, Backend* backend) {
  const std::unique_ptr<RankGroup> group = make_test_group(size, options);
  const std::unique_ptr<Backend> own = make_test_backend();
  run_ranks(*group, [&](int rank) {
    // Each rank draws its own order: no rank may depend on another's.
    RankContext context({.rank = rank,
                         .world_size = size,
                         .poison = true,
                         .streams = options.streams,
                         .lazy_seed = options.lazy_seed + 1000 * rank},
                        backend == nullptr ? *own : *backend);
    const std::unique_ptr<Communicator> communicator = group->communicator(context);
    const AbortOnUnwind abort_on_unwind(*communicator);
    body(context, *communicator);
  });
}

}  // namespace zerolab

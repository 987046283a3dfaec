#include "tests/cuda/both.h"

namespace zerolab {
namespace {

class CudaCollectives : public CudaKernels {};

TEST_P(CudaCollectives, ReducesInRankOrderAndRoundsOnce) {
  for (const int64_t begin : {0, 1}) {  // on 16-byte boundaries, and not
    std::vector<Twin> sources;
    for (const char* name : {"a", "b", "c"}) {
      sources.push_back(both.normal({507}, dtype, name).range(begin, 500));
    }
    both.cuda.stream.synchronize();
    both.run([&](Backend& backend, Stream&, auto on) {
      std::vector<const std::byte*> addresses;
      for (const Twin& source : sources) {
        addresses.push_back(on(source).raw());
      }
      const Tensor out = on(sources[1]);
      backend.reduce_in_order(addresses, dtype, 3.0, {out.raw(), static_cast<size_t>(out.bytes())});
    });
    both.expect_same_bits(sources[1]);
  }
}

INSTANTIATE_TEST_SUITE_P(Collectives, CudaCollectives, all_cases(), name_of_case);

}  // namespace
}  // namespace zerolab

#include "apps/benchmark/peak.h"

#include <algorithm>
#include <chrono>
#include <dnnl.hpp>
#include <limits>

#include "framework/tensor/backend.h"

namespace zerolab::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// The shortest of `repeats` calls, after one that is not counted.
template <typename Body>
double best_seconds(int repeats, Body&& body) {
  body();
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; ++i) {
    const Clock::time_point begin = Clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

double product_seconds(RankContext& context, int64_t n) {
  const Tensor a = Tensor::empty(context, Shape{n, n}, DType::kFloat32);
  const Tensor b = Tensor::empty_like(a);
  const Tensor out = Tensor::empty_like(a);
  context.backend().fill(context.compute(), a, 0.5);
  context.backend().fill(context.compute(), b, 0.25);
  context.compute().synchronize();
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const dnnl::memory::desc matrix({n, n}, dnnl::memory::data_type::f32,
                                  dnnl::memory::format_tag::ab);
  const dnnl::matmul product(
      dnnl::matmul::primitive_desc(dnnl::matmul::desc(matrix, matrix, matrix), engine));
  dnnl::stream stream(engine);
  return best_seconds(n <= 1024 ? 10 : 3, [&] {
    product.execute(stream, {{DNNL_ARG_SRC, dnnl::memory(matrix, engine, a.raw())},
                             {DNNL_ARG_WEIGHTS, dnnl::memory(matrix, engine, b.raw())},
                             {DNNL_ARG_DST, dnnl::memory(matrix, engine, out.raw())}});
    stream.wait();
  });
}

double bandwidth(RankContext& context) {
  constexpr int64_t kNumel = int64_t{1} << 26;  // 256 MiB each: far beyond any cache
  const Tensor out = Tensor::zeros(context, Shape{kNumel}, DType::kFloat32);
  const Tensor source = Tensor::zeros(context, Shape{kNumel}, DType::kFloat32);
  const double seconds = best_seconds(5, [&] {
    context.backend().accumulate(context.compute(), source, out);
    context.compute().synchronize();
  });
  return static_cast<double>(3 * out.bytes()) / seconds / 1e9;
}

}  // namespace

double MachineLimits::peak_flops() const {
  double sum = 0.0;
  for (const Product& product : products) {
    sum += product.gflops;
  }
  return sum / static_cast<double>(products.size()) * 1e9;
}

void MachineLimits::improve(const MachineLimits& other) {
  for (size_t i = 0; i < products.size(); ++i) {
    products[i].gflops = std::max(products[i].gflops, other.products[i].gflops);
  }
  gigabytes_per_s = std::max(gigabytes_per_s, other.gigabytes_per_s);
}

MachineLimits measure_limits(Backend& backend, int threads) {
  RankContext context({.threads = threads}, backend);
  MachineLimits limits;
  for (const int64_t n : {1024, 2048, 4096}) {
    const double operations = 2.0 * static_cast<double>(n) * static_cast<double>(n * n);
    limits.products.push_back({n, operations / product_seconds(context, n) / 1e9});
  }
  limits.gigabytes_per_s = bandwidth(context);
  return limits;
}

}  // namespace zerolab::bench

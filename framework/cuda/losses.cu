#include "framework/cuda/cuda_backend.h"
#include "framework/cuda/map.h"

namespace zerolab {
namespace {

constexpr int kMeanThreads = 1024;

/// One block per row.
template <typename T>
__global__ void log_sum_exp_kernel(const T* logits, int64_t cols, float* log_sum_exp) {
  const auto [largest, sum] = cuda::row_exponentials(logits + blockIdx.x * cols, cols);
  if (threadIdx.x == 0) {
    log_sum_exp[blockIdx.x] = largest + logf(sum);
  }
}

/// *mean = the mean of `term(i)` over [0, count), in fp64. One block, so that nothing is kept
/// between blocks; terms that are kMeanThreads apart are added first.
template <typename Term>
__global__ void mean_kernel(Term term, int64_t count, float* mean) {
  double sum = 0.0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < count; i += kMeanThreads) {
    sum += term(i);
  }
  sum = cuda::block_sum(sum);
  if (threadIdx.x == 0) {
    *mean = static_cast<float>(sum / static_cast<double>(count));
  }
}
template <typename Term>
void launch_mean(Stream& stream, const Term& term, int64_t count, const Tensor& mean) {
  cuda::launch(mean_kernel<Term>, dim3(1), dim3(kMeanThreads), 0, cuda::handle_of(stream), term,
               count, mean.data<float>());
}

/// The loss of a row; 0 where its target is outside.
template <typename T>
struct RowLoss {
  const T* logits;
  const int32_t* targets;
  const float* log_sum_exp;
  int64_t cols;
  cuda::IndexCheck check;

  __device__ double operator()(int64_t i) const {
    return check.accepts(targets[i]) ? log_sum_exp[i] - cuda::load(logits[i * cols + targets[i]])
                                     : 0.0F;
  }
};

template <typename T>
struct SquaredError {
  const T* prediction;
  const T* target;

  __device__ double operator()(int64_t i) const {
    const double difference = cuda::load(prediction[i]) - cuda::load(target[i]);
    return difference * difference;
  }
};

template <typename T>
struct CrossEntropyBackward {
  const float* dloss;
  const int32_t* targets;
  const float* log_sum_exp;
  T* logits;
  int64_t rows;
  int64_t cols;

  template <int N>
  __device__ void run(int64_t i) const {
    const float factor = *dloss / static_cast<float>(rows);
    int64_t row = i / cols;
    int64_t col = i - row * cols;
    auto pack = cuda::load_pack<N>(logits + i);
    for (int lane = 0; lane < N; ++lane) {
      const float probability = expf(cuda::load(pack.lanes[lane]) - log_sum_exp[row]);
      cuda::store(pack.lanes[lane], (probability - (col == targets[row] ? 1.0F : 0.0F)) * factor);
      if (++col == cols) {  // a pack may go on in the next row
        col = 0;
        ++row;
      }
    }
    cuda::store_pack(logits + i, pack);
  }
};

struct MseBackward {
  const float* dloss;
  float two_over_numel;
  __device__ float operator()(float prediction, float target) const {
    return *dloss * two_over_numel * (prediction - target);
  }
};

}  // namespace

void CudaBackend::cross_entropy_forward(Stream& stream, const Tensor& logits, const Tensor& targets,
                                        const Tensor& log_sum_exp, const Tensor& loss) {
  const int64_t rows = logits.shape().rows();
  const int64_t cols = logits.shape().cols();
  cuda::with_device_type(logits.dtype(), [&]<typename T>(T) {
    if (rows > 0) {
      cuda::launch(log_sum_exp_kernel<T>, dim3(static_cast<unsigned>(rows)), dim3(cuda::kThreads),
                   0, cuda::handle_of(stream), logits.data<T>(), cols, log_sum_exp.data<float>());
    }
    const cuda::IndexCheck check{static_cast<cuda::CudaStream&>(stream).fault(), "cross_entropy",
                                 "a target is outside the vocabulary", cols};
    launch_mean(stream,
                RowLoss<T>{logits.data<T>(), targets.data<int32_t>(), log_sum_exp.data<float>(),
                           cols, check},
                rows, loss);
  });
}

void CudaBackend::cross_entropy_backward(Stream& stream, const Tensor& dloss, const Tensor& targets,
                                         const Tensor& log_sum_exp, const Tensor& logits) {
  cuda::with_device_type(logits.dtype(), [&]<typename T>(T) {
    cuda::for_packs<cuda::kLanes<T>>(
        cuda::handle_of(stream), logits.numel(), cuda::are_aligned(logits.raw()),
        CrossEntropyBackward<T>{dloss.data<float>(), targets.data<int32_t>(),
                                log_sum_exp.data<float>(), logits.data<T>(), logits.shape().rows(),
                                logits.shape().cols()});
  });
}

void CudaBackend::mse_forward(Stream& stream, const Tensor& prediction, const Tensor& target,
                              const Tensor& loss) {
  cuda::with_device_type(prediction.dtype(), [&]<typename T>(T) {
    launch_mean(stream, SquaredError<T>{prediction.data<T>(), target.data<T>()}, prediction.numel(),
                loss);
  });
}

void CudaBackend::mse_backward(Stream& stream, const Tensor& dloss, const Tensor& prediction,
                               const Tensor& target, const Tensor& dprediction, bool accumulate) {
  const int64_t numel = prediction.numel();
  cuda::with_device_type(prediction.dtype(), [&]<typename T>(T) {
    cuda::map(
        stream, prediction.data<T>(), target.data<T>(), dprediction.data<T>(), numel, accumulate,
        MseBackward{dloss.data<float>(), static_cast<float>(2.0 / static_cast<double>(numel))});
  });
}

}  // namespace zerolab

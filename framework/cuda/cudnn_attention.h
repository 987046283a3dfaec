#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "framework/kernels/attention_call.h"

namespace zerolab::cuda {

/// The tensors of one attention kernel, as Backend's have them: qkv and dqkv [B, T, 3C], out and dy
/// [B, T, C], log_sum_exp [B, H, T] fp32. All begin at multiples of 16 bytes. The forward writes
/// `out` and `log_sum_exp`, the backward `dqkv`.
struct AttentionTensors {
  std::byte* qkv = nullptr;
  std::byte* out = nullptr;
  std::byte* log_sum_exp = nullptr;
  std::byte* dy = nullptr;
  std::byte* dqkv = nullptr;
};

/// cuDNN's fused attention, with the same bits each time; for bf16 and fp16. Each host
/// thread plans for its current device, at its first call of a kind.
class CudnnAttention {
 public:
  virtual ~CudnnAttention() = default;
  /// Throws `Error` if the library has no kernel for the call, as for fp32.
  virtual int64_t workspace_bytes(const AttentionCall& call) = 0;
  /// `call.accumulate` is not looked at: the result overwrites.
  virtual void launch(cudaStream_t stream, const AttentionCall& call,
                      const AttentionTensors& tensors, std::byte* workspace) = 0;
};

/// Throws `Error` if this program was built without cuDNN, or does not find the library.
std::unique_ptr<CudnnAttention> make_cudnn_attention();
/// "9.10.2" of the library that was found; empty before one was looked for.
std::string cudnn_version();

}  // namespace zerolab::cuda

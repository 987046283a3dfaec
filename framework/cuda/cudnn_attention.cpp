#include "framework/cuda/cudnn_attention.h"

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING  // libcudnn is found when the program runs
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

#include "framework/cuda/check.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // the library, where the frontend's calls look for it
}

namespace zerolab::cuda {
namespace {

namespace fe = cudnn_frontend;

/// Names of the graph's tensors.
enum Uid : int64_t { kQ = 1, kK, kV, kOut, kLogSumExp, kDy, kDq, kDk, kDv };

std::string message_of(fe::error_t status) {
  return status.is_good() ? "" : "cuDNN: " + status.get_message();
}
std::string message_of(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS
             ? ""
             : std::string("cuDNN: ") + fe::detail::get_error_string(status);
}

/// Throws `Error` unless `call`, which returns a status of cuDNN, succeeds. The frontend throws
/// where it finds no library or function.
template <typename Call>
void check(std::string_view what, Call&& call) {
  std::string message;
  try {
    message = message_of(call());
  } catch (const std::exception& error) {
    message = error.what();
  }
  require(message.empty(), "attention", "{} failed; got \"{}\"; the flash kernel needs no cuDNN",
          what, message);
}

struct DestroyHandle {
  void operator()(cudnnContext* handle) const { fe::detail::destroy_handle(handle); }
};
using Handle = std::unique_ptr<cudnnContext, DestroyHandle>;

/// Of a tensor of heads [B, H, T, D] whose next position is `pitch` elements further.
void describe(fe::graph::Tensor_attributes& tensor, Uid uid, const AttentionCall& call,
              int64_t pitch) {
  tensor.set_uid(uid)
      .set_dim({call.samples, call.heads, call.positions, call.head_size})
      .set_stride({call.positions * pitch, call.head_size, pitch, 1});
}

/// How one call is computed.
class Plan {
 public:
  Plan(cudnnHandle_t handle, const AttentionCall& call) {
    require(size_of(call.dtype) == 2, "attention",
            "cuDNN's attention computes in bf16 and fp16; got {}; use the flash kernel",
            name_of(call.dtype));
    graph_
        .set_io_data_type(call.dtype == DType::kBFloat16 ? fe::DataType_t::BFLOAT16
                                                         : fe::DataType_t::HALF)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    const int64_t width = call.heads * call.head_size;
    const auto input = [&](Uid uid, int64_t pitch) {
      fe::graph::Tensor_attributes tensor;
      describe(tensor, uid, call, pitch);
      return graph_.tensor(tensor);
    };
    const auto output = [&](const std::shared_ptr<fe::graph::Tensor_attributes>& tensor, Uid uid,
                            int64_t pitch) {
      describe(*tensor, uid, call, pitch);
      tensor->set_output(true);
    };
    const auto describe_log_sum_exp = [&](fe::graph::Tensor_attributes& tensor) {
      tensor.set_uid(kLogSumExp)
          .set_dim({call.samples, call.heads, call.positions, 1})
          .set_stride({call.heads * call.positions, call.positions, 1, 1})
          .set_data_type(fe::DataType_t::FLOAT);
    };
    const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(call.head_size)));
    const auto q = input(kQ, 3 * width);
    const auto k = input(kK, 3 * width);
    const auto v = input(kV, 3 * width);
    if (call.pass == AttentionCall::Pass::kForward) {
      const auto [out, log_sum_exp] =
          graph_.sdpa(q, k, v,
                      fe::graph::SDPA_attributes()
                          .set_name("attention")
                          .set_generate_stats(true)
                          .set_causal_mask(call.mask == AttentionMask::kCausal)
                          .set_attn_scale(scale));
      output(out, kOut, width);
      describe_log_sum_exp(*log_sum_exp);
      log_sum_exp->set_output(true);
    } else {
      fe::graph::Tensor_attributes log_sum_exp;
      describe_log_sum_exp(log_sum_exp);
      const auto [dq, dk, dv] = graph_.sdpa_backward(
          q, k, v, input(kOut, width), input(kDy, width), graph_.tensor(log_sum_exp),
          fe::graph::SDPA_backward_attributes()
              .set_name("attention_backward")
              .set_causal_mask(call.mask == AttentionMask::kCausal)
              .set_attn_scale(scale)
              .set_deterministic_algorithm(true));
      output(dq, kDq, 3 * width);
      output(dk, kDk, 3 * width);
      output(dv, kDv, 3 * width);
    }
    check("planning an attention kernel", [&] {
      return graph_.build(handle, {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
    });
    check("asking for an attention kernel's workspace",
          [&] { return graph_.get_workspace_size(workspace_bytes_); });
  }

  int64_t workspace_bytes() const { return workspace_bytes_; }

  void launch(cudnnHandle_t handle, const AttentionCall& call, const AttentionTensors& tensors,
              std::byte* workspace) const {
    const int64_t width = call.heads * call.head_size * size_of(call.dtype);
    std::unordered_map<int64_t, void*> memory = {{kQ, tensors.qkv},
                                                 {kK, tensors.qkv + width},
                                                 {kV, tensors.qkv + 2 * width},
                                                 {kOut, tensors.out},
                                                 {kLogSumExp, tensors.log_sum_exp}};
    if (call.pass == AttentionCall::Pass::kBackward) {
      memory.insert({{kDy, tensors.dy},
                     {kDq, tensors.dqkv},
                     {kDk, tensors.dqkv + width},
                     {kDv, tensors.dqkv + 2 * width}});
    }
    check("launching an attention kernel",
          [&] { return graph_.execute(handle, memory, workspace); });
  }

 private:
  fe::graph::Graph graph_;
  int64_t workspace_bytes_ = 0;
};

class LoadedCudnn final : public CudnnAttention {
 public:
  int64_t workspace_bytes(const AttentionCall& call) override {
    return plan(of_this_thread(), call).workspace_bytes();
  }

  void launch(cudaStream_t stream, const AttentionCall& call, const AttentionTensors& tensors,
              std::byte* workspace) override {
    Planner& planner = of_this_thread();
    cudnnHandle_t handle = planner.handle.get();
    check("choosing a stream", [&] { return fe::detail::set_stream(handle, stream); });
    plan(planner, call).launch(handle, call, tensors, workspace);
  }

 private:
  /// Handles belong to one thread at a time, and plans to their handle.
  struct Planner {
    Handle handle;
    std::map<AttentionCall, Plan> plans;
  };

  Planner& of_this_thread() {
    int device = 0;
    cuda::check(cudaGetDevice(&device), "asking for the current device");
    const std::lock_guard lock(mutex_);
    Planner& planner = planners_[{device, std::this_thread::get_id()}];
    if (planner.handle == nullptr) {
      cudnnHandle_t made = nullptr;
      check("starting cuDNN", [&] { return fe::detail::create_handle(&made); });
      planner.handle.reset(made);
    }
    return planner;
  }

  static const Plan& plan(Planner& planner, AttentionCall call) {
    call.accumulate = false;
    return planner.plans.try_emplace(call, planner.handle.get(), call).first->second;
  }

  std::mutex mutex_;
  std::map<std::pair<int, std::thread::id>, Planner> planners_;  ///< by device and thread
};

}  // namespace

std::unique_ptr<CudnnAttention> make_cudnn_attention() {
  void* const library = dlopen("libcudnn.so.9", RTLD_NOW);  // for the program's life
  require(library != nullptr, "cuda",
          "cuDNN 9 was not found; got \"{}\"; add the folder of libcudnn.so.9 to LD_LIBRARY_PATH, "
          "or use the flash kernel",
          dlerror());
  fe::cudnn_dlhandle = library;
  return std::make_unique<LoadedCudnn>();
}

std::string cudnn_version() {
  if (fe::cudnn_dlhandle == nullptr) {
    return "";
  }
  const size_t version = fe::detail::get_backend_version();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace zerolab::cuda

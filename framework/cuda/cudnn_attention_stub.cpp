#include "framework/core/error.h"
#include "framework/cuda/cudnn_attention.h"

namespace zerolab::cuda {

std::unique_ptr<CudnnAttention> make_cudnn_attention() {
  fail("cuda",
       "this program was built without cuDNN's attention; it needs cudnn.h and cudnn_frontend.h "
       "when it is built (PyPI's nvidia-cudnn-cu13 and nvidia-cudnn-frontend have them); use the "
       "flash kernel");
}

std::string cudnn_version() { return ""; }

}  // namespace zerolab::cuda

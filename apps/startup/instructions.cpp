#include "apps/startup/instructions.h"

namespace zerolab::app {

extern const Instructions kBuiltFor = {
#ifdef __SSE4_2__
    .sse4_2 = true,
#endif
#ifdef __AVX__
    .avx = true,
#endif
#ifdef __AVX2__
    .avx2 = true,
#endif
#ifdef __FMA__
    .fma = true,
#endif
#ifdef __BMI2__
    .bmi2 = true,
#endif
#ifdef __AVX512F__
    .avx512f = true,
#endif
#ifdef __AVX512BW__
    .avx512bw = true,
#endif
#ifdef __AVX512VL__
    .avx512vl = true,
#endif
#ifdef __AVX512DQ__
    .avx512dq = true,
#endif
#ifdef __AVX512BF16__
    .avx512bf16 = true,
#endif
#ifdef __AVX5124FMAPS__
    .avx5124fmaps = true,
#endif
};

}  // namespace zerolab::app

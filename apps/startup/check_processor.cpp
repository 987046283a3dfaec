// Says what is wrong where a program was built for another processor, which would kill it at the
// first instruction that this one lacks. Compiled without those instructions, and free of library
// code: an inline function might be linked in a version that has them.
#include <unistd.h>

#include <cstring>

#include "apps/startup/instructions.h"

namespace zerolab::app {
namespace {

void say(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) {
    _exit(1);
  }
}

void require(bool used, int here, const char* name) {
  if (used && here == 0) {
    say("error: [startup] this program was built for a processor with ");
    say(name);
    say(", which this one lacks; build it here, or with -DZEROLAB_NATIVE=OFF for any processor\n");
    _exit(1);
  }
}

/// Before the initialisers of all other files.
[[gnu::constructor(101)]] void check_processor() {
  __builtin_cpu_init();
  require(kBuiltFor.sse4_2, __builtin_cpu_supports("sse4.2"), "SSE4.2");
  require(kBuiltFor.avx, __builtin_cpu_supports("avx"), "AVX");
  require(kBuiltFor.avx2, __builtin_cpu_supports("avx2"), "AVX2");
  require(kBuiltFor.fma, __builtin_cpu_supports("fma"), "FMA");
  require(kBuiltFor.bmi2, __builtin_cpu_supports("bmi2"), "BMI2");
  require(kBuiltFor.avx512f, __builtin_cpu_supports("avx512f"), "AVX-512F");
  require(kBuiltFor.avx512bw, __builtin_cpu_supports("avx512bw"), "AVX-512BW");
  require(kBuiltFor.avx512vl, __builtin_cpu_supports("avx512vl"), "AVX-512VL");
  require(kBuiltFor.avx512dq, __builtin_cpu_supports("avx512dq"), "AVX-512DQ");
  require(kBuiltFor.avx512bf16, __builtin_cpu_supports("avx512bf16"), "AVX-512BF16");
  require(kBuiltFor.avx5124fmaps, __builtin_cpu_supports("avx5124fmaps"), "AVX-512 4FMAPS");
}

}  // namespace
}  // namespace zerolab::app

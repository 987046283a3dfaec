#pragma once

namespace zerolab::app {

/// Sets of instructions that compilers use by themselves, by the names of __builtin_cpu_supports.
struct Instructions {
  bool sse4_2 = false;
  bool avx = false;
  bool avx2 = false;
  bool fma = false;
  bool bmi2 = false;
  bool avx512f = false;
  bool avx512bw = false;
  bool avx512vl = false;
  bool avx512dq = false;
  bool avx512bf16 = false;
  bool avx5124fmaps = false;
};

/// What the program was compiled for.
extern const Instructions kBuiltFor;

}  // namespace zerolab::app

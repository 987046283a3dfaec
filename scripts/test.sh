#!/usr/bin/env bash
# Builds zerolab and runs every test that needs no GPU (scripts/gpu-check.sh runs those): the release tests, those of
# oneDNN's kernels again as on a processor without AVX-512, and some on one core; then the tests labelled `sanitizer` under
# the sanitizers, and the fuzzers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash scripts/setup.sh test
ctest --preset release
ctest --preset avx2
first_core=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
taskset -c "$first_core" ctest --preset one-core

for sanitizer in tsan asan; do
  cmake --preset "$sanitizer"
  cmake --build --preset "$sanitizer"
  ctest --preset "$sanitizer"
done

bash scripts/fuzz.sh

#!/usr/bin/env bash
# Builds zerolab and runs every test that needs no GPU (scripts/gpu-check.sh runs those), then the tests labelled
# `sanitizer` under the sanitizers, then the fuzzers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash scripts/setup.sh
ctest --test-dir build -LE gpu --output-on-failure -j2

for sanitizer in tsan asan; do
  cmake --preset "$sanitizer"
  cmake --build --preset "$sanitizer"
  ctest --test-dir "build-$sanitizer" -L sanitizer --no-tests=error --output-on-failure -j2
done

bash scripts/fuzz.sh

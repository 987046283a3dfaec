#!/usr/bin/env bash
# Line coverage of the CUDA backend's own sources by its tests on the simulated device. Fails below 90 %. cuDNN's calls,
# which the simulated device does not know, are left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v gcovr >/dev/null; then
  echo "coverage: gcovr is needed; on Debian: apt-get install gcovr" >&2
  exit 1
fi
cmake --preset coverage
# Of earlier runs, and of the build, which lists the tests.
forget() { find build-coverage -name '*.gcda' -delete; }
forget
cmake --build --preset coverage
forget
build-coverage/bin/test_cuda --gtest_brief=1
build-coverage/bin/test_cuda_app --gtest_brief=1
build-coverage/bin/test_nccl --gtest_brief=1
gcovr --root . --filter 'framework/cuda/' --filter 'framework/comm/nccl' --exclude '.*cudnn.*' --exclude '.*_stub\.cpp' \
  --exclude-throw-branches --fail-under-line 90 build-coverage

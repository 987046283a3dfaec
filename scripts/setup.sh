#!/usr/bin/env bash
# Installs the Debian packages that are missing, then builds in build/:
#   scripts/setup.sh demo    train-gpt and what it needs, the default
#   scripts/setup.sh test    everything, with what the tests, the sanitizers, the fuzzers and scripts/lint.sh need
# The CUDA backend is built where a driver is (nvidia-smi works) and the toolkit. It is built without a driver by
#   cmake --preset release -DZEROLAB_CUDA=ON && cmake --build --preset release
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# ocl-icd-opencl-dev: libdnnl-dev's CMake files ask for OpenCL, which its package does not depend on.
packages=(g++ cmake ninja-build libdnnl-dev ocl-icd-opencl-dev libtomlplusplus-dev libcli11-dev libfmt-dev libpcre2-dev
  nlohmann-json3-dev libxxhash-dev libutf8proc-dev libjs-chart.js libcpp-httplib-dev pkgconf fortunes fortunes-min)
case "${1:-demo}" in
  demo) target=train-gpt tests=OFF ;;
  test)
    target=all tests=ON
    packages+=(libgtest-dev libboost-context-dev chromium chromium-driver python3 clang-16 libclang-rt-16-dev
      clang-format clang-tidy-16)
    ;;
  *)
    echo "usage: scripts/setup.sh [demo|test]" >&2
    exit 2
    ;;
esac

# Runs a command as root without questions; what it says is shown only if it fails.
quietly_as_root() {
  local log as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "setup: root or sudo is needed for: $*" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  log=$(mktemp)
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" </dev/null >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    echo "setup: failed: $*" >&2
    exit 1
  fi
  rm -f "$log"
}

missing=()
for package in "${packages[@]}"; do
  if [[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]]; then
    missing+=("$package")
  fi
done

if ((${#missing[@]} > 0)); then
  if ! command -v apt-get >/dev/null; then
    echo "setup: there is no apt-get here; install by hand what these Debian packages hold," >&2
    echo "setup: then run: cmake --preset release && cmake --build --preset release" >&2
    printf '  %s\n' "${missing[@]}" >&2
    exit 1
  fi
  echo "setup: installing ${missing[*]}"
  quietly_as_root apt-get update
  quietly_as_root apt-get -o DPkg::Lock::Timeout=120 install -y --no-install-recommends "${missing[@]}"
fi

# A folder that builds the tests goes on to do so.
options=()
if [[ $tests == ON || ! -f build/CMakeCache.txt ]]; then
  options=("-DZEROLAB_TESTS=$tests")
fi
cmake --preset release "${options[@]}"
if ! nvidia-smi -L >/dev/null 2>&1; then
  echo "setup: no NVIDIA driver: CUDA is built only on request, by: cmake --preset release -DZEROLAB_CUDA=ON && cmake --build --preset release"
fi
cmake --build --preset release --target "$target"

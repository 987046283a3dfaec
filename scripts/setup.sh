#!/usr/bin/env bash
# Installs the Debian packages that are missing, then builds the release preset in build/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# ocl-icd-opencl-dev: libdnnl-dev's CMake files ask for OpenCL, which its package does not depend on.
packages=(g++ cmake ninja-build libgtest-dev libboost-context-dev libdnnl-dev ocl-icd-opencl-dev libtomlplusplus-dev
  libcli11-dev libfmt-dev libpcre2-dev libutf8proc-dev nlohmann-json3-dev fortunes fortunes-min libjs-chart.js pkgconf
  libcpp-httplib-dev libxxhash-dev chromium chromium-driver python3 clang-16 libclang-rt-16-dev)

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

cmake --preset release
cmake --build --preset release

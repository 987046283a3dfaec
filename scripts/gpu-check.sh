#!/usr/bin/env bash
# Everything that only a GPU can show, on a machine with one: builds, runs the tests labelled gpu, the small ones again
# under compute-sanitizer, compares the stages with 4 ranks on one GPU, and measures training steps of GPT-2 124M. Ends
# with one JSON file of the results. Nothing is downloaded.
#
#   scripts/gpu-check.sh [--packages FOLDER] [--out FILE]    FILE: default build-gpu/gpu-check.json
#   scripts/gpu-check.sh --pack FOLDER    on Debian: fills FOLDER with what a machine needs beside CUDA, CMake and g++
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(libgtest-dev libtomlplusplus-dev libtomlplusplus3 libcli11-dev libfmt-dev libfmt9 nlohmann-json3-dev
  libxxhash-dev libxxhash0 libutf8proc-dev libutf8proc2 libpcre2-dev libpcre2-8-0 libpcre2-16-0 libpcre2-32-0
  libpcre2-posix3 libjs-chart.js pkgconf pkgconf-bin libpkgconf3 libcpp-httplib-dev libcpp-httplib0.11 libssl-dev
  libssl3 libbrotli-dev libbrotli1 zlib1g-dev zlib1g)
folder="" out="build-gpu/gpu-check.json"

usage() {
  sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}

pack() {
  local downloads
  mkdir -p "$1" && downloads=$(mktemp -d) || exit 1
  echo "gpu-check: filling $1 with ${packages[*]}"
  (cd "$downloads" && apt-get download -qq "${packages[@]}") || exit 1
  for package in "$downloads"/*.deb; do
    dpkg -x "$package" "$1" || exit 1
  done
  # For cuDNN's attention; cudnn.h comes with the machine's cuDNN.
  if (cd "$downloads" && python3 -m pip download -q --no-deps nvidia-cudnn-frontend 2>/dev/null); then
    for wheel in "$downloads"/nvidia_cudnn_frontend-*.whl; do
      python3 -m zipfile -e "$wheel" "$downloads/wheel" && cp -r "$downloads/wheel/include/." "$1/usr/include/"
    done
  else
    echo "gpu-check: without pip there is no nvidia-cudnn-frontend, and no cuDNN attention"
  fi
  rm -rf "$downloads" "$1/usr/share/doc" "$1/usr/share/man"
  exit 0
}

while (($# > 0)); do
  case "$1" in
    --packages) folder=$(realpath "${2:?}") && shift 2 || usage ;;
    --out) out=$(realpath -m "${2:?}") && shift 2 || usage ;;
    --pack) pack "${2:?}" ;;
    *) usage ;;
  esac
done

if ! gpu=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | head -1); then
  echo "gpu-check: nvidia-smi finds no GPU on this machine" >&2
  exit 1
fi
echo "gpu-check: $gpu"
if [[ -n "$folder" ]]; then
  libraries=lib/$(uname -m)-linux-gnu
  export CMAKE_PREFIX_PATH="$folder/usr"
  export LD_LIBRARY_PATH="$folder/usr/$libraries:$folder/$libraries:${LD_LIBRARY_PATH:-}"
  export PKG_CONFIG_LIBDIR="$folder/usr/$libraries/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$folder"
fi

build=build-gpu results="" failed=0
mkdir -p "$build" "$(dirname "$out")"

# Runs a step, keeps what it prints in build-gpu/NAME.log, and adds {"NAME": {status, seconds, log's last line}} to the
# results; further arguments name a JSON file that the step writes, to be added as it is.
step() {
  local name=$1 file=$2 begin=$SECONDS status=0
  shift 2
  echo "gpu-check: $name: $*"
  "$@" >"$build/$name.log" 2>&1 || status=$?
  tail -n 12 "$build/$name.log"
  ((status == 0)) || failed=1
  local last
  last=$(grep -v '^[[:space:]]*$' "$build/$name.log" | tail -1 | tr -d '\\"\000-\037')
  results+="${results:+,}\"$name\": {\"status\": $status, \"seconds\": $((SECONDS - begin)), \"last_line\": \"$last\""
  if [[ -n "$file" && -s "$file" ]]; then
    results+=", \"result\": $(cat "$file")"
  fi
  results+="}"
}

write_results() {
  printf '{"machine": "%s", "gpu": "%s", "commit": "%s", "date": "%s", "steps": {%s}}\n' "$(uname -n)" "$gpu" \
    "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" "$(date -u +%FT%TZ)" "$results" >"$out"
  echo "gpu-check: results in $out"
}
trap write_results EXIT

onednn=ON
[[ -n "$folder" ]] && onednn=OFF
step configure "" cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DZEROLAB_CUDA=ON -DZEROLAB_ONEDNN=$onednn \
  -DCMAKE_UNITY_BUILD=ON
step build "" cmake --build "$build" --target test_gpu train-gpt benchmark-gpu
((failed == 0)) || exit 1

step devices "" "$build/bin/train-gpt" devices
step tests "" "$build/bin/test_gpu" --gtest_brief=1
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck synccheck; do
    step "$tool" "" compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/bin/test_gpu" --gtest_brief=1 \
      --gtest_filter='*fp32_seed1:*bf16_seed1:CudaEngine.Exact*'
  done
fi

compare=("$build/bin/train-gpt" compare configs/demo.toml --set launch.device=cuda --set launch.ranks=4
  --set data.path=README.md --set "run.out_dir=$build/runs")
step compare "$build/runs/demo/compare.json" "${compare[@]}"
if grep -q "cuDNN's attention ON" "$build/configure.log"; then
  step benchmark_cudnn "$build/cudnn.json" "$build/bin/benchmark-gpu" --attention cudnn --json "$build/cudnn.json"
fi
for stage in 0 1 2; do
  step "benchmark_1_rank_stage_$stage" "$build/1-$stage.json" "$build/bin/benchmark-gpu" --stage $stage \
    --json "$build/1-$stage.json"
  step "benchmark_4_ranks_stage_$stage" "$build/4-$stage.json" "$build/bin/benchmark-gpu" --stage $stage --ranks 4 \
    --batch 8 --json "$build/4-$stage.json"
done
exit $failed

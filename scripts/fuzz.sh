#!/usr/bin/env bash
# Fuzzes every reader of files for some seconds (60), two at a time: scripts/fuzz.sh [seconds [seed]]. The same seed (1)
# tries the same inputs, as many as the time allows; another searches elsewhere. An input that a reader does not take well
# is kept in build-fuzz/ and ends the script with status 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-60}
seed=${2:-1}

cmake --preset fuzz
cmake --build --preset fuzz
# New inputs go to build-fuzz/; those in tests/fuzz/corpus/ are only read.
find tests/fuzz -name 'fuzz_*.cpp' -printf '%f\n' | sort | sed 's/^fuzz_//; s/\.cpp$//' | xargs -P2 -I{} bash -c '
  mkdir -p build-fuzz/corpus/{}
  build-fuzz/bin/fuzz_{} -max_total_time='"$seconds"' -seed='"$seed"' -timeout=10 -rss_limit_mb=1024 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix=build-fuzz/{}- build-fuzz/corpus/{} tests/fuzz/corpus/{} >build-fuzz/{}.log 2>&1 ||
    { tail -n 40 build-fuzz/{}.log; echo "fuzz: {} failed"; exit 1; }
  echo "fuzz: {}: $(grep -o "number_of_executed_units: .*" build-fuzz/{}.log | tr -d a-z_:\ ) inputs, no finding"'

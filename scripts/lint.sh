#!/usr/bin/env bash
# Checks the format of every source, and with clang-tidy the libraries that build/ compiles, two at a time; not the kernels
# of framework/onednn and framework/cuda, which are written for other compilers:
#   scripts/lint.sh            all of them
#   scripts/lint.sh COMMIT     those changed since COMMIT, whose units are the files themselves (a build without unity)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

git ls-files '*.cpp' '*.h' '*.cu' '*.cuh' | xargs clang-format --dry-run -Werror

folder=build
[[ $# == 1 ]] && folder=build-dev
[[ -f $folder/compile_commands.json ]] || cmake --preset "$(basename "$folder" | sed 's/build-//; s/build/release/')"
units=$(python3 - "$folder" "${1:-}" <<'PYTHON'
import json, os, subprocess, sys
folder, commit = sys.argv[1:]
files = [os.path.relpath(entry["file"]) for entry in json.load(open(f"{folder}/compile_commands.json"))]
top = tuple(name + "/" for name in ("framework", "optim", "models", "zero", "data", "checkpoint"))
files = [name for name in files if name.removeprefix(folder + "/").startswith(top) and "onednn" not in name and "cuda" not in name]
if commit:
    changed = subprocess.run(["git", "diff", "--name-only", commit], capture_output=True, text=True, check=True)
    files = [name for name in files if name in changed.stdout.split()]
print("\n".join(files))
PYTHON
)
# GCC's headers come after clang's own: omp.h is only there.
echo "$units" | xargs -r -P2 -n1 clang-tidy-16 -p "$folder" --quiet --warnings-as-errors='*' \
  --extra-arg=-Wno-unknown-warning-option "--extra-arg=-idirafter$(g++ -print-file-name=include)" 2> >(grep -v 'warnings generated\|warnings treated' >&2)
echo "lint: no finding"

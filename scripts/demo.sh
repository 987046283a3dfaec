#!/usr/bin/env bash
# Builds train-gpt and compares the ZeRO stages on a small GPT. Further arguments go to train-gpt,
# e.g. scripts/demo.sh --set run.steps=20
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash scripts/setup.sh demo
exec build/bin/train-gpt compare configs/demo.toml "$@"

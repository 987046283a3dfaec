#!/usr/bin/env bash
# Writes the tables of docs/config.md anew from the configuration table, apps/train_gpt/config/config_sections.cpp.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cmake --preset release
cmake --build --preset release --target test_train_gpt
WRITE_CONFIG_PAGE=1 build/bin/test_train_gpt --gtest_filter='ConfigPage.*'

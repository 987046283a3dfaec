#!/usr/bin/env bash
# Makes the pictures of docs/tour.md, docs/images/*.png, from real runs: about two minutes on two cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
run() { build/bin/train-gpt "$@" --set run.out_dir="$runs" --set log.console=off; }

run compare configs/demo.toml --set run.steps=30 --set run.eval_every=0
run compare configs/demo.toml --set run.steps=10 --set run.eval_every=0 --set train.precision=bf16 --set run.name=bf16
run compare --variants configs/link.toml --set run.steps=10
mkdir "$runs/volume"
build/bin/train-gpt report "$runs"/link/{ddp,zero-1-all-reduce,zero-1-reduce-scatter} -o "$runs/volume/report.html"
for overlap in false true; do
  run train configs/link.toml --set run.steps=10 --set run.name="overlap-$overlap" --set zero.overlap_comm="$overlap" \
    --set zero.stage=1 --set launch.ranks=2 --set train.micro_batch_size=16 --set log.trace=true
done
python3 scripts/tour_pictures.py "$runs" docs/images

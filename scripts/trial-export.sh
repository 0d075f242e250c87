#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Compares exported models with PyTorch: trial-export.sh [SPEC...], by default the models of models/tiny without named
# inputs and the successors at width 64 and context 128. Trains each model for a few steps, exports it, and compares
# logits and losses. Prints the largest difference of a logit, relative to the largest logit, and the difference of the
# loss. PYTHON names an interpreter with torch and safetensors. Exit status 1 if an f32 difference exceeds 1e-5.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
sluice=$root/build/bin/sluice python=${PYTHON:-python3} work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" - "$work/text" <<'PY'
import random, sys
random.seed(1)
words = [bytes(random.choices(b"abcdefghij", k=random.randint(1, 7))) for _ in range(60)]
open(sys.argv[1], "wb").write(b" ".join(random.choices(words, k=8000)))
PY

specs=("$@")
if [ ${#specs[@]} = 0 ]; then
  for spec in "$root"/models/tiny/*.json; do
    grep -q '"inputs"' "$spec" || specs+=("$spec")
  done
  for spec in "$root"/models/successors/*.json; do
    name=$work/$(basename "$spec") # smaller: width 64, 4 heads, context 128
    "$python" "$root/scripts/shrink-spec.py" "$spec" > "$name" && specs+=("$name")
  done
fi

failed=0
for spec in "${specs[@]}"; do
  name=$(basename "$spec" .json)
  rm -rf "$work/run" "$work/out"
  ("$sluice" compile "$spec" -o "$work/a.sla" &&
    "$sluice" train "$work/a.sla" --data "$work/text" --out "$work/run" --steps "${STEPS:-12}" &&
    "$sluice" export "$work/a.sla" --weights "$work/run" -o "$work/out") > "$work/log" 2>&1 ||
    { echo "$name: $(grep -m1 error "$work/log")"; failed=1; continue; }
  rows=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["context"])' "$spec")
  head -c "$((rows - 1))" "$work/text" > "$work/short" # a length that no factor divides
  rm -f "$work/logits.npy"
  "$sluice" logits "$work/a.sla" --weights "$work/run" --data "$work/short" -o "$work/logits.npy" > "$work/log" 2>&1
  "$sluice" eval "$work/a.sla" --weights "$work/run" --data "$work/short" --json > "$work/eval.json" 2> "$work/eval.log"
  "$python" "$root/scripts/compare-export.py" "$name" "$work" || failed=1
done
exit $failed

#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Valid IR never crashes a pass, neither ours nor upstream's, and a pass rejects ops of another level. `SLUICE_FUZZ=N` generates N
# mutants of each level of the first model, and a quarter of that for each of the others.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

opt=$root/build/bin/sluice-opt
count=${SLUICE_FUZZ:-16}
form="sluice-differentiate+sluice-form-dispatches"
upstream=canonicalize+cse+symbol-dce
# spec NAME REST: a model of width 8 with these keys.
spec() {
  echo '{ "sluice": 1, "vocabulary": 20, "batch": 2, "width": 8, '"$2"' }' > "$work/$1.json"
}
spec hourglass '"context": 24, "defaults": { "heads": 2, "rotary": true },
  "stages": [ { "op": "embedding" }, { "op": "hourglass", "hierarchy": "1@1 1@4 1@1" }, { "op": "head" } ]'
spec segments '"context": 12, "defaults": { "heads": 2, "feed_forward": 8, "dropout": 0.2, "attention_dropout": 0.2 },
  "stages": [ { "op": "embedding" }, { "op": "layer", "to": "x" }, { "op": "boundaries", "name": "words", "predictor": 8, "prior": 0.3 },
    { "op": "shorten", "segments": "words" }, { "op": "shift", "by": 1, "start": "null" }, { "op": "layer" },
    { "op": "upsample", "segments": "words", "by": 0 }, { "op": "add", "with": "x" }, { "op": "head" } ],
  "training": { "accumulate": 2 }'
spec hashed '"context": 12, "defaults": { "heads": 2, "feed_forward": 8, "lsh": { "buckets": 4, "chunk": 2 } },
  "stages": [ { "op": "embedding" }, { "op": "layer" }, { "op": "head" } ]'
spec inputs '"context": 8, "inputs": { "source": { "context": 6 } }, "defaults": { "heads": 2, "feed_forward": 8 },
  "stages": [ { "op": "embedding", "positions": "learned", "to": "text" }, { "op": "embedding", "input": "source", "positions": "learned", "to": "memory" },
    { "op": "layer", "from": "text", "over": "memory" }, { "op": "head" } ]'
spec losses '"context": 12, "defaults": { "heads": 2, "feed_forward": 8 },
  "stages": [ { "op": "embedding" }, { "op": "norm", "to": "fine" }, { "op": "shorten", "factor": 4 }, { "op": "layer" },
    { "op": "loss", "name": "bag", "factor": 0.3, "tied": true }, { "op": "upsample", "factor": 4 }, { "op": "shift", "by": 3 },
    { "op": "add", "with": "fine" }, { "op": "head", "label_smoothing": 0.1 } ]'
spec drawn '"context": 12, "defaults": { "heads": 2, "feed_forward": 8 },
  "stages": [ { "op": "embedding" }, { "op": "hourglass", "hierarchy": "1@1 1@{2,3} 1@1" }, { "op": "head" } ]'

# level NAME LEVEL: the model's IR of that level.
level() { succeeds "$1, $2: printed" "$sluice" compile "$work/$1.json" --emit "$2" --target cpu-avx2 && cp "$work/out" "$work/$1.$2.mlir"; }
# fuzz NAME LEVEL COUNT PIPELINE...
fuzz() {
  local name=$1.$2 mutants=$3
  shift 3
  mkdir -p "$work/$name"
  succeeds "$name: no valid mutant crashes a pass" \
    python3 "$root/test/e2e/support/fuzz_passes.py" "$opt" "$work/$name.mlir" "$mutants" "${SLUICE_FUZZ_SEED:-1}" "$work/$name" "$@"
}
for name in hourglass segments hashed inputs losses drawn; do
  level "$name" model
  [[ $name == hourglass ]] && mutants=$count || mutants=$((count / 4))
  fuzz "$name" model "$mutants" sluice-convert-factors sluice-derive-step+sluice-form-dispatches \
    "$upstream+$form+sluice-build-entries+sluice-separate-places+sluice-emit-plan"
  level "$name" gradient
  fuzz "$name" gradient "$((mutants / 2))" "$upstream+sluice-form-dispatches+sluice-build-entries+sluice-plan-memory"
  level "$name" dispatches
  fuzz "$name" dispatches "$mutants" "$upstream+sluice-separate-places+sluice-emit-plan" sluice-recompute=memory-budget=900000
done

# Some kernels of a CPU, and plans with guards and axes of segments: only upstream's passes run on them.
level losses kernels
awk '/^  func.func/ { made++ } made < 4 || /^}/' "$work/losses.kernels.mlir" > "$work/few.kernels.mlir"
fuzz few kernels "$((count / 4))" "$upstream" sluice-emit-plan
for name in hourglass segments; do
  level "$name" plan
  fuzz "$name" plan "$((count / 2))" "$upstream" sluice-emit-plan
  succeeds "$name.plan: read" "$opt" "$work/$name.plan.mlir" -o "$work/read.mlir"
  succeeds "$name.plan: upstream's passes" "$opt" "$work/$name.plan.mlir" "--canonicalize" "--cse" "--symbol-dce" -o "$work/simplified.mlir"
  succeeds "$name.plan: no launch is lost, merged or moved" cmp "$work/read.mlir" "$work/simplified.mlir"
done

# Every pass on every level: it runs, or reports its expectation.
runs='model:(merge-ops|convert-factors|derive-step|differentiate|form-dispatches) gradient:(merge-ops|convert-factors|derive-step|form-dispatches)
  dispatches:(merge-ops|separate-places|plan-memory|emit-plan|generate-kernels|recompute) plan:(merge-ops)'
for ir in model gradient dispatches plan; do
  for pass in merge-ops convert-factors derive-step differentiate form-dispatches build-entries separate-places plan-memory emit-plan generate-kernels \
    generate-kernels=target=sm_80 recompute=memory-budget=900000; do
    label="$ir: sluice-$pass"
    if grep -qE "(^| )$ir:\(.*\b${pass%%=*}\b[^:]*\)" <<< "$runs" && [[ $pass != *sm_80 ]]; then
      succeeds "$label runs" "$opt" "$work/segments.$ir.mlir" "--sluice-$pass" -o /dev/null
    else
      exits 1 "$label is rejected" "$opt" "$work/segments.$ir.mlir" "--sluice-$pass" -o /dev/null
      cp "$work/err" "$work/message"
      succeeds "$label reports its expectation" grep -q 'error: .*expected' "$work/message"
    fi
  done
done
{ printf 'module attributes {a = ' && head -c 100000 /dev/zero | tr '\0' '['; } > "$work/deep.mlir"
exits 1 "IR nested too deeply for the parser" "$opt" "$work/deep.mlir"
if grep -q 'deep.mlir: error: expected IR whose brackets nest at most 500 deep' "$work/err"; then pass "it is said"; else fail "it is said"; fi
finish

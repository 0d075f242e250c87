#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# IR that verifies never crashes a pass, neither ours nor upstream's. `SLUICE_FUZZ=N` makes N mutants of each level.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

opt=$root/build/bin/sluice-opt
count=${SLUICE_FUZZ:-20}
spec=$work/model.json
cat > "$spec" << 'SPEC'
{ "sluice": 1, "vocabulary": 20, "context": 24, "batch": 2, "width": 8,
  "defaults": { "heads": 2, "rotary": true },
  "stages": [ { "op": "embedding" }, { "op": "hourglass", "hierarchy": "1@1 1@4 1@1" }, { "op": "head" } ] }
SPEC
upstream=canonicalize+cse+symbol-dce
form="sluice-differentiate+sluice-form-dispatches"
fuzz() {
  local level=$1
  shift
  succeeds "$level: printed" "$sluice" compile "$spec" --emit "$level"
  cp "$work/out" "$work/$level.mlir"
  mkdir -p "$work/$level"
  succeeds "$level: no mutant that verifies crashes a pass" \
    python3 "$root/test/e2e/support/fuzz_passes.py" "$opt" "$work/$level.mlir" "$count" "${SLUICE_FUZZ_SEED:-1}" "$work/$level" "$@"
}
fuzz model sluice-convert-factors sluice-derive-step+sluice-form-dispatches \
  $form+sluice-build-entries+sluice-separate-places+sluice-plan-memory $upstream+$form $form+sluice-build-entries+sluice-emit-plan
fuzz dispatches $upstream+sluice-separate-places+sluice-plan-memory sluice-build-entries sluice-emit-plan \
  sluice-generate-kernels=target=sm_80 sluice-recompute=memory-budget=900000
finish

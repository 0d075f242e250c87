#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Compares exported models with PyTorch: trial-export.sh [SPEC...], by default the models of models/tiny and the
# successors and the models with LSH attention at width 64 and context 128. Trains each model for 12 steps, exports it,
# and compares the logits, the losses of `sluice eval` and, where training has no dropout, no smoothed labels and no
# extra candidates, the gradient of the first step. Models with named inputs are compared on lines of different lengths.
# Buckets of LSH attention come from the same model in f64. Prints the largest differences, relative to the largest
# logit, to the loss and to the largest gradient. PYTHON names an interpreter with torch, numpy and safetensors. Exit
# status 1 if a difference exceeds 1e-5, or 2^-6 in bf16. Takes minutes.
set -euo pipefail
. "$(dirname "$0")/common.sh"

python=${PYTHON:-python3} work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[[ -x $build/bin/sluice ]] || die "expected $build/bin/sluice, found none; build it first: scripts/build.sh"
"$python" -c 'import numpy, safetensors, torch' 2> /dev/null ||
  die "expected an interpreter with torch, numpy and safetensors, found $python without them; set PYTHON"

specs=("$@")
if [[ ${#specs[@]} = 0 ]]; then
  specs=("$root"/models/tiny/*.json)
  for spec in "$root"/models/successors/*.json "$root"/models/papers/lsh-*.json; do
    name=$work/$(basename "$spec")
    "$python" "$root/scripts/shrink-spec.py" "$spec" > "$name"
    specs+=("$name")
    if [[ $spec == */lsh-* ]]; then # in bf16 too
      sed '1s/{/{ "precision": { "compute": "bf16" },/' "$name" > "${name%.json}-bf16.json"
      specs+=("${name%.json}-bf16.json")
    fi
  done
  name=$work/contrast-lines.json # the lines of the comparison are one batch, which has the candidates
  sed 's/"vocabulary": [0-9]*/"vocabulary": 256/g; s/"batch": 4/"batch": 9/; s/, "extra_batches": 1//' "$root/test/golden/contrast-lines.json" > "$name"
  specs+=("$name")
  for expand in linear nearest; do # with graph attention
    name=$work/umst-$expand.json
    sed "s/\"edges\": \"links\"/&, \"intra\": \"gat\", \"inter\": \"gat\", \"expand\": \"$expand\"/" "$root/models/tiny/umst.json" > "$name"
    specs+=("$name")
  done
fi
"$python" "$root/scripts/trial_export.py" "$build/bin/sluice" "${specs[@]}"

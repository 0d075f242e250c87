#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The main job on real text: check, compile, train for a few minutes, evaluate on held-out text, write, report.
# Exit status 0 only if the held-out bits per byte beat a Witten-Bell trigram model of the same text.
# Installs and builds only the needs of the program sluice. SLUICE_DEMO_STEPS sets the training steps. All results are
# in build/demo/; run again, it trains only if the spec, the text, the steps or the programs changed, and continues where an interrupted
# training stopped.
set -euo pipefail
. "$(dirname "$0")/common.sh"

steps=${SLUICE_DEMO_STEPS:-1800}
spec=$root/models/demo.json
demo=$build/demo
run=$demo/run
artifact=$demo/demo.sla
training=$demo/training.txt
held_out=$demo/held-out.txt
sluice=$build/bin/sluice

"$root/scripts/setup.sh" --program
"$root/scripts/build.sh" --program
mkdir -p "$demo"

"$root/scripts/text.sh" "$demo"

say "checking $spec"
"$sluice" check "$spec" >&2
say "compiling"
"$sluice" compile "$spec" -o "$artifact" >&2

# Dependences of the trained weights: discards a run of other ones.
key=$({
  echo "$steps"
  cat "$spec" "$sluice" "$build"/lib/libsluice_runtime.so "$training" | sha256sum
} | sha256sum)
if [[ ! -f $demo/key || $(< "$demo/key") != "$key" ]]; then
  rm -rf "$run" "$demo/trained"
  echo "$key" > "$demo/key"
fi
if [[ -f $demo/trained ]]; then
  say "trained before (remove build/demo/ to train again)"
else
  say "training $steps steps, $SECONDS s after the start"
  resume=()
  [[ -e $run/latest ]] && resume=(--resume)
  "$sluice" train "$artifact" --data "$training" --out "$run" --steps "$steps" "${resume[@]}"
  touch "$demo/trained"
fi

say "evaluating on held-out text"
"$sluice" eval "$artifact" --weights "$run" --data "$held_out" --json > "$run/eval.json"
model=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["bits_per_byte"])' "$run/eval.json")
say "counting n-grams"
"$sluice" ngram --train "$training" --test "$held_out" --order 2 3 5 --json > "$run/ngram.json"
read -r bigram trigram fivegram < <(python3 -c 'import json, sys
print(*(result["bits_per_byte"] for result in json.load(open(sys.argv[1]))["orders"]))' "$run/ngram.json")

say "a sample"
"$sluice" generate "$artifact" --weights "$run" --prompt "Water" --tokens 300
echo
"$sluice" report "$run" --curve "$run/curve.svg"

printf '\n%-28s %s\n' "held-out text" "bits per byte"
printf '%-28s %.4f\n' "bigram (Witten-Bell)" "$bigram" "trigram (Witten-Bell)" "$trigram" \
  "5-gram (Witten-Bell)" "$fivegram" "this model, $steps steps" "$model"
say "all of it took $SECONDS s"
is_below() { python3 -c 'import sys; sys.exit(not float(sys.argv[1]) < float(sys.argv[2]))' "$1" "$2"; }
if ! is_below "$model" "$trigram"; then
  echo "the model does not beat the trigram model"
  exit 1
elif is_below "$model" "$fivegram"; then
  echo "the model beats the trigram and the 5-gram model"
else
  echo "the model beats the trigram model, and not the 5-gram model"
fi

#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The main job on real text: check, compile, train for a few minutes, evaluate on held-out text, write, report.
# Exit status 0 only if the held-out bits per byte beat a Witten-Bell trigram model of the same text.
# Installs and builds only what the program sluice needs. SLUICE_DEMO_STEPS sets the training steps. Everything made lies
# in build/demo/; run again, it trains only if the spec, the text, the steps or the programs changed, and goes on where an
# interrupted training stopped.
set -euo pipefail
. "$(dirname "$0")/common.sh"

steps=${SLUICE_DEMO_STEPS:-1000}
training_bytes=20000000
held_out_bytes=500000
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

# The Collaborative International Dictionary of English, about 40 MB. Its Debian package is unpacked, not installed:
# installing it starts a dictionary server. Held-out text follows the training part.
dictionary=usr/share/dictd/gcide.dict.dz
fetch_dictionary() {
  local folder=$demo/dict-gcide
  rm -rf "$folder"
  mkdir -p "$folder"
  say "fetching the text: Debian's package dict-gcide"
  (cd "$folder" && apt-get download dict-gcide && dpkg-deb -x dict-gcide_*.deb .) >&2 ||
    die "apt-get could not download dict-gcide; run apt-get update as root and try again"
  printf '%s\n' "$folder/$dictionary"
}
if [[ ! -f $training || $(stat -c %s "$training") -ne $training_bytes || ! -f $held_out ]]; then
  if [[ -f /$dictionary ]]; then
    source=/$dictionary
  else
    source=$(fetch_dictionary)
  fi
  gzip -dc < "$source" > "$demo/text"
  tail -c "+$((training_bytes + 1))" "$demo/text" | head -c "$held_out_bytes" > "$held_out" || true
  head -c "$training_bytes" "$demo/text" > "$training"
  rm -rf "$demo/text" "$demo/dict-gcide"
  [[ $(stat -c %s "$held_out") -eq $held_out_bytes ]] || die "$source is shorter than expected"
fi

say "checking $spec"
"$sluice" check "$spec" >&2
say "compiling"
"$sluice" compile "$spec" -o "$artifact" >&2

# What the trained weights depend on: a run made from anything else is thrown away.
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

say "evaluating on $held_out_bytes held-out bytes"
"$sluice" eval "$artifact" --weights "$run" --data "$held_out" --json > "$run/eval.json"
model=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["bits_per_byte"])' "$run/eval.json")
say "counting n-grams"
"$sluice" ngram --train "$training" --test "$held_out" --order 2 3 5 --json > "$run/ngram.json"
read -r bigram trigram fivegram < <(python3 -c 'import json, sys
print(*(result["bits_per_byte"] for result in json.load(open(sys.argv[1]))["orders"]))' "$run/ngram.json")

say "a sample"
"$sluice" generate "$artifact" --weights "$run" --prompt "Water" --tokens 300
echo
"$sluice" report "$run"

printf '\n%-28s %s\n' "held-out text" "bits per byte"
printf '%-28s %.4f\n' "bigram (Witten-Bell)" "$bigram" "trigram (Witten-Bell)" "$trigram" \
  "5-gram (Witten-Bell)" "$fivegram" "this model, $steps steps" "$model"
say "all of it took $SECONDS s"
if python3 -c 'import sys; sys.exit(not float(sys.argv[1]) < float(sys.argv[2]))' "$model" "$trigram"; then
  echo "the model beats the trigram model"
else
  echo "the model does not beat the trigram model"
  exit 1
fi

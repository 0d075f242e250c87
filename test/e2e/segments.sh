#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Segments that whitespace ends, and predicted ones: trained, evaluated with the shortening factor, generated; too many end the run.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

write_text "$work/training.txt" 60000 1
write_text "$work/held-out.txt" 3000 2
# spec FILE BOUNDARIES: a model of dynamic pooling whose boundaries stage has these keys.
spec() {
  cat > "$1" << JSON
{ "sluice": 1, "vocabulary": 256, "context": 64, "batch": 4, "width": 32,
  "defaults": { "heads": 4, "activation": "gelu", "relative": "xl_shared", "placement": "post" },
  "stages": [
    { "op": "embedding" }, { "op": "layer", "to": "fine" },
    { "op": "boundaries", "name": "words", $2 },
    { "op": "shorten", "segments": "words" }, { "op": "shift", "by": 1, "start": "null" },
    { "op": "layer" },
    { "op": "upsample", "segments": "words", "by": 0 }, { "op": "add", "with": "fine" },
    { "op": "layer" }, { "op": "head" } ],
  "training": { "learning_rate": 3e-3, "schedule": { "kind": "constant", "warmup": 2 } } }
JSON
}

spec "$work/words.json" '"rule": "whitespace", "capacity": 0.5'
spec "$work/drawn.json" '"predictor": 16, "prior": 0.2'
for name in words drawn; do
  succeeds "$name: compile" "$sluice" compile "$work/$name.json" -o "$work/$name.sla"
  succeeds "$name: train" "$sluice" train "$work/$name.sla" --data "$work/training.txt" --out "$work/$name" --steps 12
  holds "$name: the loss falls" 'f[0][-1]["loss"] < f[0][0]["loss"] - 0.2' "$work/$name/metrics.jsonl"
  succeeds "$name: eval" "$sluice" eval "$work/$name.sla" --weights "$work/$name" --data "$work/held-out.txt" --window 64 --stride 64 --json
  cp "$work/out" "$work/$name.eval.json"
done
python3 - "$work/held-out.txt" > "$work/share.json" << 'PYTHON'
import sys
text = open(sys.argv[1]).read()[:-1]
print(text.count(" ") / len(text))
PYTHON
holds "the share of boundaries is that of spaces" 'abs(f[0]["losses"]["words.share"] - f[1]) < 1e-6' "$work/words.eval.json" "$work/share.json"
holds "the prior is told by name" 'f[0]["losses"]["words.prior"] > 0' "$work/drawn.eval.json"
succeeds "eval prints the shortening factor" "$sluice" eval "$work/words.sla" --weights "$work/words" --data "$work/held-out.txt"
cp "$work/out" "$work/printed"
succeeds "as tokens a segment" grep -Eq 'shortening +[3-9]\.[0-9]+ tokens a segment of words' "$work/printed"
succeeds "generate" "$sluice" generate "$work/words.sla" --weights "$work/words" --prompt "the water" --tokens 20
succeeds "bench on forced segments" "$sluice" bench "$work/words.sla" --steps 1 --forced-factor 4 --json
cp "$work/out" "$work/forced.json"
holds "has their length" 'f[0]["shortening_factor"]["words"] == 4' "$work/forced.json"
succeeds "bench on a file's bytes, forced" "$sluice" bench "$work/words.sla" --steps 1 --data "$work/held-out.txt" --forced-factor 8 --json
holds "longer segments cost less" 'f[0]["shortening_factor"]["words"] == 8 and f[0]["step_gflop"] < f[1]["step_gflop"]' \
  "$work/out" "$work/forced.json"
exits 2 "a predictor heeds no spaces" "$sluice" bench "$work/drawn.sla" --steps 1 --forced-factor 4
exits 1 "forced segments of one token are too many" "$sluice" bench "$work/words.sla" --steps 1 --forced-factor 1
exits 2 "forced segments longer than the context" "$sluice" bench "$work/words.sla" --steps 1 --forced-factor 65
tr ' ' '\n' < "$work/held-out.txt" | sed 's/./ /g' | tr '\n' ' ' > "$work/spaces.txt"
exits 1 "more segments than the capacity" "$sluice" eval "$work/words.sla" --weights "$work/words" --data "$work/spaces.txt"
cp "$work/err" "$work/refused"
succeeds "and the message says so" grep -q 'rows for the segments of "words"' "$work/refused"
exits 1 "a sample with more segments than the capacity" "$sluice" train "$work/words.sla" --data "$work/training.txt" --out "$work/sampled" --steps 2 \
  --sample-prompt "$(printf '%40s' '')"
succeeds "loses no step" test -e "$work/sampled/latest"
finish

#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# A top-down model: rows without a coarsest group are neither scored nor continued; a model of only groups is trained and evaluated,
# expects a bag, and generates nothing.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

write_text "$work/training.txt" 60000 1
write_text "$work/held-out.txt" 1000 2
spec=$root/models/tiny/top-down.json

# refuses NAME PATTERN COMMAND...: exit status 2 and a message.
refuses() {
  local name=$1 pattern=$2
  shift 2
  exits 2 "$name" "$@"
  cp "$work/err" "$work/said"
  succeeds "$name: the message" grep -qE -- "$pattern" "$work/said"
}

succeeds "compile" "$sluice" compile "$spec" -o "$work/model.sla"
succeeds "train" "$sluice" train "$work/model.sla" --data "$work/training.txt" --eval-data "$work/held-out.txt" --out "$work/run" --steps 12
holds "every scale's loss falls" \
  'all(f[0][-1]["losses"][n] < f[0][0]["losses"][n] for n in ("next", "bag_16", "bag_4"))' "$work/run/metrics.jsonl"
holds "the minimized loss is the sum of factors times means" \
  'all(abs(m["objective"] - m["losses"]["next"] - 0.2 * (m["losses"]["bag_16"] + m["losses"]["bag_4"])) < 1e-5 for m in f[0])' \
  "$work/run/metrics.jsonl"

evaluate=("$sluice" eval "$work/model.sla" --weights "$work/run" --data "$work/held-out.txt")
succeeds "eval" "${evaluate[@]}" --per-token "$work/nats.npy" --json
cp "$work/out" "$work/eval.json"
holds "tokens from 16 on are scored, each once" 'f[0]["tokens"] == 1000 - 16' "$work/eval.json"
holds "and their mean is the head's loss" 'abs(f[0]["losses"]["next"] - f[0]["nats"] / f[0]["tokens"]) < 1e-9' "$work/eval.json"
succeeds "one number per token is written" python3 -c 'import os, sys; sys.exit(os.path.getsize(sys.argv[1]) < 4 * 984 or os.path.getsize(sys.argv[1]) > 4 * 984 + 256)' "$work/nats.npy"
succeeds "eval of some tokens" "${evaluate[@]}" --tokens 100 --json
cp "$work/out" "$work/some.json"
holds "the requested number of tokens" 'f[0]["tokens"] == 100' "$work/some.json"
succeeds "the longest stride" "${evaluate[@]}" --window 64 --stride 49 --json
refuses "a stride that omits tokens" 'from 1 to 49' "${evaluate[@]}" --window 64 --stride 50
refuses "a window without scored tokens" 'from 16 to' "${evaluate[@]}" --window 15

succeeds "inspect" "$sluice" inspect "$work/model.sla" --json
cp "$work/out" "$work/inspect.json"
holds "generation uses the step" 'f[0]["generation"]["rows"] == 16' "$work/inspect.json"
generate=("$sluice" generate "$work/model.sla" --weights "$work/run" --no-echo)
refuses "a prompt of 15 bytes" 'at least 16 bytes.*found 15' "${generate[@]}" -p 'the water runs ' -n 5
for flags in "" --no-cache; do
  # shellcheck disable=SC2086
  "${generate[@]}" -p 'the water runs d' -n 150 -t 0 $flags > "$work/text$flags"
done
succeeds "150 bytes" test "$(wc -c < "$work/text")" -eq 150
succeeds "the same greedy text without a cache, past the context" cmp "$work/text" "$work/text--no-cache"

succeeds "certificate" "$sluice" check "$spec" --no-advice --certificate "$work/certificate"
succeeds "an independent reading agrees" "$root/build/bin/sluice-certify" "$spec" "$work/certificate"
sed 's/ from 3$/ from 2/; s/ from 3 / from 2 /' "$work/certificate" > "$work/changed"
exits 1 "another first key is rejected" "$root/build/bin/sluice-certify" "$spec" "$work/changed"

# Only groups.
python3 - "$spec" "$work" << 'PYTHON'
import json, sys
spec, work = json.load(open(sys.argv[1])), sys.argv[2]
groups = {**spec, "stages": [{"op": "embedding"}, {"op": "shorten", "factor": 4}, {"op": "layer"}, {"op": "head"}]}
json.dump(groups, open(work + "/groups.json", "w"))
PYTHON
succeeds "groups: compile" "$sluice" compile "$work/groups.json" -o "$work/groups.sla"
succeeds "groups: train" "$sluice" train "$work/groups.sla" --data "$work/training.txt" --out "$work/groups" --steps 12
holds "groups: the loss falls" 'f[0][-1]["loss"] < f[0][0]["loss"]' "$work/groups/metrics.jsonl"
succeeds "groups: eval" "$sluice" eval "$work/groups.sla" --weights "$work/groups" --data "$work/held-out.txt" --json
cp "$work/out" "$work/groups.eval.json"
holds "groups: a bag gives no bits per character" \
  'f[0]["characters"] is f[0]["bits_per_character"] is None and f[0]["no_characters"] == "the model predicts bags of tokens, not a text"' "$work/groups.eval.json"
holds "groups: rows of the first group are not scored" 'f[0]["tokens"] == 1000 - 4' "$work/groups.eval.json"
completions=("$sluice" analyze completions "$work/groups.sla" -w "$work/groups" --data "$work/held-out.txt")
succeeds "groups: completions" "${completions[@]}" --prompts 3 --prompt-tokens 12 --picture "$work/groups.html" --json
cp "$work/out" "$work/completions.json"
succeeds "groups: logits" "$sluice" logits "$work/groups.sla" -w "$work/groups" --data "$work/held-out.txt" -o "$work/groups.npy"
holds "groups: the most likely tokens of the next group match the logits" \
  "(lambda p, raw: (lambda row: [e['token'] for e in p['expected']] == sorted(range(256), key=lambda t: (-row[t], t))[:4])(
    __import__('array').array('f', raw[10 + int.from_bytes(raw[8:10], 'little'):])[11 * 256:12 * 256]) and
    p['text'] + p['next'] == open('$work/held-out.txt').read()[:16] and len(f[0]['prompts']) == 3)(
    f[0]['prompts'][0], open('$work/groups.npy', 'rb').read())" "$work/completions.json"
succeeds "groups: a page shows them" grep -q '<table>' "$work/groups.html"
refuses "groups: half a group" 'a multiple of 4 from' "${completions[@]}" --prompt-tokens 10
refuses "groups: generation is rejected" 'bag of the next group' "$sluice" generate "$work/groups.sla" -w "$work/groups" -p 'the water' -n 3
finish

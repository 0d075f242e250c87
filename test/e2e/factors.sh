#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Shorten-factor dropout: one artifact equals, at each factor, the artifact of only that factor, bitwise. The model's table is
# shared by the embedding and the head, and a norm by two stages.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

write_text "$work/training.txt" 20000 1
write_text "$work/held-out.txt" 700 2
tiny=$root/models/tiny/hourglass.json spec=$work/drawn.json
sed 's/1@1 2@4 1@1/0@1 1@{2,4} 0@1/; s/"context": 64/"context": 32/; s/"batch": 4/"batch": 2/; s/"width": 32/"width": 16/
  s/"op": "embedding"/&, "share": "tokens"/; s/"op": "head"/"op": "norm", "share": "norm" }, { "op": "norm", "share": "norm" }, { &, "share": "tokens"/' "$tiny" > "$spec"
# shellcheck disable=SC2317 # "succeeds" calls it
compile() { "$sluice" compile "$@" --target cpu-avx2; }
for factor in 2 4; do
  sed "s/{2,4}/$factor/" "$spec" > "$work/only-$factor.json"
  succeeds "compile factor $factor alone" compile "$work/only-$factor.json" -o "$work/only-$factor.sla"
done
succeeds "compile both" compile "$spec" -o "$work/drawn.sla" --factor 4

# Training: one factor per step; a resumed run samples the same.
train=("$sluice" train "$work/drawn.sla" --data "$work/training.txt" --log-every 1)
succeeds "train" "${train[@]}" --eval-data "$work/held-out.txt" --eval-every 12 --steps 12 --out "$work/run"
succeeds "half a run" "${train[@]}" --steps 5 --out "$work/halves"
succeeds "the other half" "${train[@]}" --steps 12 --resume --out "$work/halves"
holds "each line has its factor, and both factors occur" '{m["factor"] for m in f[0]} == {2, 4} and len(f[0]) == 12' "$work/run/metrics.jsonl"
holds "a resumed run samples and trains the same" \
  'all((a["factor"], a["loss"], a["grad_norm"]) == (b["factor"], b["loss"], b["grad_norm"]) for a, b in zip(*f))' \
  "$work/run/metrics.jsonl" "$work/halves/metrics.jsonl"
for file in weights optimizer; do
  succeeds "to the same $file" cmp "$work/run/checkpoints/12/$file.safetensors" "$work/halves/checkpoints/12/$file.safetensors"
done
succeeds "one tensor, and one pair of moments, is of all stages that share it" python3 - "$work/run/checkpoints/12" << 'PYTHON'
import json, sys
for name, count in (("weights", 1), ("optimizer", 2)):
    data = open(f"{sys.argv[1]}/{name}.safetensors", "rb").read()
    names = [x for x in json.loads(data[8:8 + int.from_bytes(data[:8], "little")]) if "stages." in x]
    assert not [x for x in names if "stages.3." in x or "stages.4." in x], names
    assert len([x for x in names if "stages.0." in x]) == count and len([x for x in names if "stages.2." in x]) == 2 * count, names
PYTHON
holds "held-out text is scored with each" \
  'set(f[0][-1]["eval_factors"]) == {"2", "4"} and f[0][-1]["eval_factors"]["4"] == f[0][-1]["eval_bits_per_byte"]' "$work/run/metrics.jsonl"
first=$(head -1 "$work/run/metrics.jsonl" | sed 's/.*"factor":\([0-9]\).*/\1/')
succeeds "a step of only that factor" "$sluice" train "$work/only-$first.sla" --data "$work/training.txt" --steps 1 --out "$work/one"
holds "is the same step" 'all(f[0][0][key] == f[1][0][key] for key in ("loss", "grad_norm"))' "$work/run/metrics.jsonl" "$work/one/metrics.jsonl"

# Evaluation, logits and generation with the weights of that run.
score=(--weights "$work/run" --data "$work/held-out.txt" --json)
succeeds "eval" "$sluice" eval "$work/drawn.sla" "${score[@]}"
cp "$work/out" "$work/all.json"
for factor in 2 4; do
  succeeds "eval --factor $factor" "$sluice" eval "$work/drawn.sla" "${score[@]}" --factor $factor
  cp "$work/out" "$work/chosen.json"
  succeeds "eval of factor $factor alone" "$sluice" eval "$work/only-$factor.sla" "${score[@]}"
  cp "$work/out" "$work/alone.json"
  holds "both losses are equal" "f[0]['factors']['$factor']['nats'] == f[1]['nats'] == f[2]['nats'] and f[1]['factor'] == $factor" \
    "$work/all.json" "$work/chosen.json" "$work/alone.json"
  write=(--weights "$work/run" --prompt "the cat" --tokens 20 --seed 3)
  succeeds "a text of factor $factor alone" "$sluice" generate "$work/only-$factor.sla" "${write[@]}"
  cp "$work/out" "$work/alone.txt"
  succeeds "generate --factor $factor" "$sluice" generate "$work/drawn.sla" "${write[@]}" --factor $factor
  cp "$work/out" "$work/text"
  cp "$work/err" "$work/notice-$factor"
  succeeds "writes the same" cmp "$work/text" "$work/alone.txt"
done
holds "the factors give different losses" 'f[0]["factors"]["2"]["nats"] != f[0]["factors"]["4"]["nats"]' "$work/all.json"
succeeds "a note names the factors without a step" grep -q "with factor 2 each token recomputes" "$work/notice-2"
greedy=(--weights "$work/run" --prompt "the cat" --tokens 50 --temperature 0)
succeeds "a text of factor 4, recomputed" "$sluice" generate "$work/drawn.sla" "${greedy[@]}" --no-cache
cp "$work/out" "$work/recomputed.txt"
succeeds "step by step" "$sluice" generate "$work/drawn.sla" "${greedy[@]}"
cp "$work/out" "$work/cached.txt"
succeeds "is the same, past the context" cmp "$work/cached.txt" "$work/recomputed.txt"
succeeds "the step is of factor 4" "$sluice" generate "$work/drawn.sla" "${write[@]}" --save-session "$work/session"
exits 2 "and of no other" "$sluice" generate "$work/drawn.sla" "${write[@]}" --save-session "$work/session-2" --factor 2
cp "$work/err" "$work/refused"
succeeds "the message names both factors" grep -q -e '--factor: expected 4, the factor of the steps .* found 2; leave --factor out' "$work/refused"
succeeds "losses by token" "$sluice" eval "$work/drawn.sla" "${score[@]}" --factor 2 --per-token "$work/losses.npy"
succeeds "logits" "$sluice" logits "$work/drawn.sla" --weights "$work/run" --data "$work/held-out.txt" -o "$work/logits.npy" --factor 2
succeeds "give these losses" python3 - "$work" << 'PYTHON'
import array, math, sys
def read(name):
    data = open(f"{sys.argv[1]}/{name}.npy", "rb").read()
    return array.array("f", data[10 + int.from_bytes(data[8:10], "little"):])
text, losses, logits = open(f"{sys.argv[1]}/held-out.txt", "rb").read(), read("losses"), read("logits")
assert len(losses) == len(text) - 1
for i, loss in enumerate(losses):
    row = logits[256 * i:256 * i + 256]
    assert abs(math.log(math.fsum(map(math.exp, row))) - row[text[i + 1]] - loss) < 1e-4, i
PYTHON

# Proofs: each factor has one, and a read that is too late only for the largest is rejected with it.
succeeds "check" "$sluice" check "$spec" --no-advice --certificate "$work/certificate" --smt "$work/smt"
cp "$work/out" "$work/verdict"
succeeds "prints the factors" grep -q "each factor of 2, 4" "$work/verdict"
succeeds "an independent reading agrees" "$root/build/bin/sluice-certify" "$spec" "$work/certificate" --enumerate
python3 - "$work/certificate" "$work/partial" << 'PYTHON'
import sys
lines = open(sys.argv[1]).read().splitlines()
kept = lines[:lines.index("factor 4")]
open(sys.argv[2], "w").write("\n".join(kept + [f"end certificate {len(kept) + 1} lines"]) + "\n")
PYTHON
exits 1 "a certificate without the proof of a factor is rejected" "$root/build/bin/sluice-certify" "$spec" "$work/partial"
sed 's/"0@1 1@{2,4} 0@1"/&, "shift": 1/' "$spec" > "$work/leaky.json"
exits 1 "a shift for only the minimum factor is rejected" "$sluice" check "$work/leaky.json" --json
cp "$work/out" "$work/leak.json"
holds "the witness of the other factor is replayed" \
  'f[0]["refused_factor"] == 4 and f[0]["witness"]["replay"]["result"] == "changed" and f[0]["witness"]["replay"]["program"] == "compiled"' "$work/leak.json"
exits 1 "compile rejects it too" compile "$work/leaky.json" -o "$work/leaky.sla"

# Impossible combinations are reported.
exits 2 "another factor" "$sluice" eval "$work/drawn.sla" "${score[@]}" --factor 3
exits 2 "a factor for a spec without sampled factors" "$sluice" eval "$work/only-2.sla" "${score[@]}" --factor 2
exits 2 "compile of another factor" compile "$spec" -o "$work/x.sla" --factor 3
exits 2 "losses by token without a factor" "$sluice" eval "$work/drawn.sla" "${score[@]}" --per-token "$work/x.npy"

# Within the minimum budget, steps of both factors are the same.
exits 2 "a budget that is too small" compile "$spec" -o "$work/x.sla" --memory-budget 1 --factor 4
least=$(sed -n 's/.*expected at least \([0-9]*\) .*/\1/p' "$work/err")
exits 2 "one byte less than the minimum" compile "$spec" -o "$work/x.sla" --memory-budget $((least - 1)) --factor 4
succeeds "the least" compile "$spec" -o "$work/lean.sla" --memory-budget "$least" --factor 4
succeeds "inspect" "$sluice" inspect "$work/lean.sla" --json
holds "keeps to it" "f[0]['memory']['arena_bytes'] <= $least < f[0]['memory']['budget']['full_bytes']" "$work/out"
succeeds "train within it" "$sluice" train "$work/lean.sla" --data "$work/training.txt" --log-every 1 --steps 12 --out "$work/lean"
holds "the same steps" 'all((a["factor"], a["loss"], a["grad_norm"]) == (b["factor"], b["loss"], b["grad_norm"]) for a, b in zip(*f)) and len(f[1]) == 12' \
  "$work/run/metrics.jsonl" "$work/lean/metrics.jsonl"
finish

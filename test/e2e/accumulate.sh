#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Gradient accumulation: updates of 8 x 1, 4 x 2 and 2 x 4 rows are one update, with dropout, drawn boundaries and factors, several
# losses and padding; epochs and groups of weights; rejected input.
# shellcheck disable=SC2317 # succeeds and exits call these functions
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

write_text "$work/text" 6000 1
head -c 700 "$work/text" > "$work/held-out"
# write_spec NAME CONTEXT KEYS STAGES: one spec for each way to have eight rows. epsilon is far above rounding: an update is then as
# exact as its gradient.
write_spec() {
  for batch in 8 4 2; do
    cat > "$work/$1-$batch.json" << SPEC
{ "sluice": 1, "vocabulary": 256, "context": $2, "batch": $batch, "width": 16, "seed": 3, $3
  "stages": [ $4 ],
  "training": { "accumulate": $((8 / batch)), "learning_rate": 0.01, "epsilon": 0.01, "clip": 0.5,
                "schedule": { "kind": "constant", "warmup": 0, "steps": 3 } } }
SPEC
  done
}
# Rows whose scores sample four keys at a time, and one at a time; contractions, row passes and layers on segments with
# random bits.
draws='"defaults": { "heads": 2, "feed_forward": 20, "dropout": 0.2, "attention_dropout": 0.2 },'
words='{ "op": "embedding", "dropout": 0.2 }, { "op": "layer", "to": "x" }, { "op": "boundaries", "name": "words", "predictor": 8, "prior": 0.3 },
  { "op": "shorten", "segments": "words" }, { "op": "shift", "by": 1, "start": "null" }, { "op": "layer" },
  { "op": "upsample", "segments": "words", "by": 0 }, { "op": "add", "with": "x" }, { "op": "head" }'
write_spec words 20 "$draws" "$words"
write_spec spikes 20 "$draws" "${words/\"prior\": 0.3/\"rule\": \"entropy\", \"loss\": \"next\", \"spike\": 2}"
write_spec drawn 21 "$draws" '{ "op": "embedding" }, { "op": "hourglass", "hierarchy": "1@1 1@{2,3} 1@1" }, { "op": "head" }'
write_spec plain 21 '"defaults": { "heads": 2, "feed_forward": 20 },' '{ "op": "embedding" }, { "op": "layer" },
  { "op": "loss", "name": "early", "factor": 0.3, "label_smoothing": 0.2 }, { "op": "layer" }, { "op": "norm" }, { "op": "head" }'
write_spec lines 12 "$draws \"inputs\": { \"source\": { \"context\": 6 } }," '{ "op": "embedding", "to": "text" },
  { "op": "embedding", "input": "source" }, { "op": "layer", "mask": "bidirectional" }, { "op": "norm", "to": "memory" },
  { "op": "layer", "from": "text" }, { "op": "loss", "name": "early", "factor": 0.5 },
  { "op": "layer", "over": "memory" }, { "op": "head" }'
# Lines in batches of only long lines, and of only short ones.
"$root/test/e2e/support/uneven_lines.py" "$work"

# agrees RUN OTHER LIMIT: losses, norms and weights of two runs agree; fails with "differs" if they do.
agrees() {
  python3 - "$@" << 'PYTHON'
import array, json, sys
def read(run):
    data = open(f"{run}/checkpoints/3/weights.safetensors", "rb").read()
    size = int.from_bytes(data[:8], "little")
    tensors = {name: array.array("f", data[8 + size + at["data_offsets"][0]:8 + size + at["data_offsets"][1]])
               for name, at in json.loads(data[8:8 + size]).items() if name != "__metadata__"}
    return tensors, [json.loads(line) for line in open(f"{run}/metrics.jsonl")]
(ours, steps), (theirs, others) = read(sys.argv[1]), read(sys.argv[2])
assert len(steps) == len(others) == 3 and ours.keys() == theirs.keys()
worst = max(abs(a - b) for name in ours for a, b in zip(ours[name], theirs[name]))
for step, other in zip(steps, others):
    pairs = [(step[key], other[key]) for key in ("loss", "grad_norm", "objective") if key in step]
    pairs += [(step["losses"][name], other["losses"][name]) for name in step.get("losses", {})]
    assert step.get("factor") == other.get("factor") and step["learning_rate"] == other["learning_rate"]
    worst = max([worst] + [abs(a - b) / max(1, abs(a)) for a, b in pairs])
print(f"largest difference {worst:.2g}")
assert worst < float(sys.argv[3]), worst
PYTHON
}
# f32 sums of some hundred terms in another order, three updates of at most 0.01 g / 0.01: a few units in the last place.
limit=2e-6
train() { "$sluice" train "$work/$1.sla" --log-every 1 --steps 3 --out "$work/$2" "${@:3}"; }
for name in words spikes drawn plain lines; do
  data=(--data "$work/text")
  [[ $name != lines ]] || data=(--data "$work/lines" --input "source=$work/source")
  sizes=(4) # one division of the rows for each, and one for both
  [[ $name != words ]] || sizes=(4 2)
  for batch in 8 "${sizes[@]}"; do
    succeeds "compile $name in batches of $batch" "$sluice" compile "$work/$name-$batch.json" -o "$work/$name-$batch.sla" -t cpu-avx2
    succeeds "train it" train "$name-$batch" "$name-run-$batch" "${data[@]}"
  done
  for batch in "${sizes[@]}"; do
    succeeds "$name: batches of $batch match batches of 8" agrees "$work/$name-run-8" "$work/$name-run-$batch" $limit
    cat "$work/out"
  done
done
# The check can fail: other random numbers, or other rows, give clearly different runs.
succeeds "train with another seed" train words-4 words-seed --data "$work/text" --seed 4
exits 1 "another seed gives another run" agrees "$work/words-run-8" "$work/words-seed" 1e-3
sed 's/"accumulate": 2/"accumulate": 1/' "$work/plain-4.json" > "$work/half.json"
succeeds "compile half the rows" "$sluice" compile "$work/half.json" -o "$work/half.sla" -t cpu-avx2
succeeds "train them" train half half --data "$work/text"
exits 1 "other rows give another run" agrees "$work/plain-run-8" "$work/half" 1e-3

# On the command line; a resumed run continues with the next rows, and may change the size of its
# update.
succeeds "train --set" train half half-set --data "$work/text" --set training.accumulate=2
succeeds "is the spec's own" agrees "$work/plain-run-4" "$work/half-set" 1e-12
again=("$sluice" train "$work/words-2.sla" --data "$work/text" --log-every 1 --eval-data "$work/held-out" --eval-every 1)
succeeds "a first step" "${again[@]}" --steps 1 --out "$work/resumed"
succeeds "the others" "${again[@]}" --steps 3 --resume --out "$work/resumed"
succeeds "give the same run" agrees "$work/words-run-2" "$work/resumed" 1e-12
holds "four batches of two" 'f[0]["data"]["index"] == 24 and f[0]["data"]["epoch"] == 0' "$work/resumed/checkpoints/3/state.json"
# Epochs of 40 lines, of eight rows a step. The schedule ends at the last step, and groups of weights have their own rates.
lines=("$sluice" train "$work/lines-8.sla" --data "$work/lines" --input "source=$work/source" --log-every 1 --save-every 1 --keep 9)
groups='[{ "match": "*.bias", "learning_rate": 0.02, "weight_decay": 0.3 }, { "match": "stages.0.*", "weight_decay": 0.2 }]'
succeeds "one epoch" "${lines[@]}" --epochs 1 --out "$work/epoch" --set training.schedule.kind=cosine --set "training.groups=$groups"
cp "$work/err" "$work/printed"
succeeds "prints the steps" grep -q '1 epoch of 40 rows is 5 steps of 8 rows' "$work/printed"
tail -n 1 "$work/epoch/metrics.jsonl" > "$work/last.json"
holds "the last step is at the floor" 'f[0]["step"] == 5 and abs(f[0]["learning_rate"] - 1e-3) < 1e-9' "$work/last.json"
holds "groups have their rates" '(f[0]["group_rates"].keys() == {"*.bias", "stages.0.*"} and abs(f[0]["group_rates"]["*.bias"] - 2e-3) < 1e-9
  and f[0]["group_rates"]["stages.0.*"] == f[0]["learning_rate"])' "$work/last.json"
holds "the record has both" 'f[0]["epochs"] == 1 and f[0]["steps"] == 5 and "training.schedule.steps=5" in f[0]["changes"][0]["settings"]' "$work/epoch/run.json"
# follows RUN: step 5 is AdamW's formula in float64, with the rate and the decay of each weight's group.
follows() {
  python3 - "$1" << 'PYTHON'
import array, fnmatch, json, math, sys
def read(step, file):
    data = open(f"{sys.argv[1]}/checkpoints/{step}/{file}.safetensors", "rb").read()
    size = int.from_bytes(data[:8], "little")
    return {name: (at["shape"], array.array("f", data[8 + size + at["data_offsets"][0]:8 + size + at["data_offsets"][1]]))
            for name, at in json.loads(data[8:8 + size]).items() if name != "__metadata__"}
before, after, states = read(4, "weights"), read(5, "weights"), read(5, "optimizer")
step = [json.loads(line) for line in open(f"{sys.argv[1]}/metrics.jsonl")][-1]
worst, members = 0, {"*.bias": 0, "stages.0.*": 0, "": 0}
for name, (shape, old) in before.items():
    group = next((match for match in ("*.bias", "stages.0.*") if fnmatch.fnmatchcase(name, match)), "")
    isMatrix = len(shape) > 1 and not name.endswith("token.weight")
    rate = step["group_rates"].get(group, step["learning_rate"])
    decay = {"*.bias": 0.3, "stages.0.*": 0.2}.get(group, 0.1 if isMatrix else 0)
    members[group] += 1
    for p, q, m, v in zip(old, after[name][1], states[name + ".adam.m"][1], states[name + ".adam.v"][1]):
        expected = p - rate * decay * p - rate * (m / (1 - 0.9 ** 5)) / (math.sqrt(v / (1 - 0.95 ** 5)) + 0.01)
        worst = max(worst, abs(q - expected) / max(abs(p), rate))
print(f"largest difference {worst:.2g} of {members}")
assert all(members.values()) and worst < 1e-6, worst # a dozen roundings of f32
PYTHON
}
succeeds "each weight follows its group" follows "$work/epoch"
cat "$work/out"
cp -r "$work/epoch" "$work/again"
succeeds "again from step 2" "$sluice" train --resume "$work/again" --from 2
for file in weights optimizer; do
  succeeds "gives the same $file" cmp "$work"/{epoch,again}"/checkpoints/5/$file.safetensors"
done
succeeds "a second epoch" "$sluice" train --resume "$work/again" --epochs 2
tail -n 1 "$work/again/metrics.jsonl" > "$work/last.json"
holds "ends its schedule" 'f[0]["step"] == 10 and abs(f[0]["learning_rate"] - 1e-3) < 1e-9' "$work/last.json"
cp "$work/again/run.json" "$work/run.json"
succeeds "fewer epochs than the run has" "$sluice" train --resume "$work/again" --epochs 1
cp "$work/err" "$work/printed"
succeeds "prints that they are over" grep -q -e '--epochs 1: the run has passed 1 epoch of 40 rows: it is after step 10' "$work/printed"
exits 1 "prints no number of steps" grep -q '1 epoch of 40 rows is' "$work/printed"
succeeds "changes nothing" cmp "$work/run.json" "$work/again/run.json"
exits 2 "steps and epochs" "${lines[@]}" --epochs 1 --steps 5 --out "$work/neither"
exits 2 "a group that matches nothing" "${lines[@]}" --epochs 1 --set 'training.groups=[{"match": "*.biases"}]' --out "$work/neither"
cp "$work/err" "$work/printed"
succeeds "names a name" grep -q 'expected a pattern of the names of weights to train, found "\*.biases", which no name matches; one of the' "$work/printed"
exits 1 "writes nothing" test -e "$work/neither"
succeeds "bench" "$sluice" bench "$work/words-2.sla" --steps 1 --json
cp "$work/out" "$work/bench.json"
holds "tokens of an update" 'abs(f[0]["tokens_per_s"] * f[0]["step_ms"] / 1e3 - 160) < 1' "$work/bench.json"
succeeds "inspect" "$sluice" inspect "$work/words-2.sla"
cp "$work/out" "$work/inspected"
succeeds "prints the rows of an update" grep -q "batch 4 times 2" "$work/inspected"

finish

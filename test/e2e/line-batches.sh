#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Batches of lines by length: an epoch in batches of several shapes is one batch of all its lines, with dropout, edges and segments;
# evaluation and a resumed run have the same bits; the order of the documentation; steps of epochs; rejected input.
# shellcheck disable=SC2317 # succeeds and exits call these functions
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

reports() {
  if grep -qE -- "$2" "$work/err"; then pass "$1"; else fail "$1" "expected '$2' in:" "$(tail -n 5 "$work/err")"; fi
}
# write_spec NAME BATCH TRAINING: lines of up to 16 tokens. Attention samples four keys at a time, and one at a time in short shapes.
write_spec() {
  cat > "$work/$1.json" << SPEC
{ "sluice": 1, "vocabulary": 256, "context": 16, "batch": $2, "width": 16, "seed": 3, "inputs": { "source": { "context": 16 } },
  "defaults": { "heads": 2, "feed_forward": 20, "dropout": 0.2, "attention_dropout": 0.2 },
  "stages": [ { "op": "embedding", "positions": "learned", "to": "text" },
    { "op": "embedding", "input": "source", "positions": "learned", "dropout": 0.1 }, { "op": "layer", "mask": "bidirectional" },
    { "op": "norm", "to": "memory" }, { "op": "layer", "from": "text", "relative": { "bias": 2 } },
    { "op": "loss", "name": "early", "factor": 0.5 },
    { "op": "layer", "over": "memory" }, { "op": "head" } ],
  "training": { $3 "learning_rate": 0.01, "epsilon": 0.01, "clip": 0.5, "schedule": { "kind": "constant", "warmup": 0, "steps": 3 } } }
SPEC
}
# write_words NAME BATCH TRAINING: an input with edges, signed distances and the words of its lines.
write_words() {
  cat > "$work/$1.json" << SPEC
{ "sluice": 1, "vocabulary": 256, "context": 16, "batch": $2, "width": 16, "seed": 3,
  "inputs": { "source": { "context": 16 }, "links": { "type": "edges", "on": "source", "capacity": 3 } },
  "defaults": { "heads": 2, "feed_forward": 20, "dropout": 0.2, "attention_dropout": 0.2 },
  "stages": [ { "op": "embedding", "positions": "learned", "to": "text" },
    { "op": "embedding", "input": "source", "to": "letters" }, { "op": "graph_convolution", "edges": "links" },
    { "op": "add", "with": "letters" }, { "op": "layer", "mask": "bidirectional", "relative": { "vectors": 4 }, "to": "bytes" },
    { "op": "boundaries", "name": "words", "rule": "whitespace" }, { "op": "shorten", "segments": "words" },
    { "op": "layer", "mask": "bidirectional", "to": "coarse" }, { "op": "upsample", "segments": "words", "method": "own" },
    { "op": "add", "with": "bytes" }, { "op": "norm", "to": "memory" }, { "op": "layer", "from": "text" },
    { "op": "loss", "name": "early", "factor": 0.5 }, { "op": "layer", "over": "memory" }, { "op": "layer", "over": "coarse" },
    { "op": "head" } ],
  "training": { $3 "learning_rate": 0.01, "epsilon": 0.01, "clip": 0.5, "schedule": { "kind": "constant", "warmup": 0, "steps": 3 } } }
SPEC
}
python3 - "$work" << 'PYTHON'
import random, sys
draw = random.Random(5)
lines = ["".join(draw.choice("abcd f") for _ in range(draw.choice((0, 1, 2, 3, 5, 7, 9, 12, 15)))) for _ in range(40)]
source = [line[::-1] + "x" * draw.randint(0, 1) for line in lines]
links = [" ".join("-".join(map(str, draw.sample(range(len(line)), 2))) for _ in range(draw.randint(0, 3)) if len(line) > 1) for line in source]
for name, all_lines in (("lines", lines), ("source", source), ("links", links)):
    open(f"{sys.argv[1]}/{name}", "w").write("\n".join(all_lines) + "\n")
PYTHON

# agrees RUN OTHER LIMIT: losses, norms and weights of two runs of three steps agree.
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
    pairs = [(step[key], other[key]) for key in ("loss", "grad_norm", "objective")]
    pairs += [(step["losses"][name], other["losses"][name]) for name in step["losses"]]
    worst = max([worst] + [abs(a - b) / max(1, abs(a)) for a, b in pairs])
print(f"largest difference {worst:.2g}")
assert worst < float(sys.argv[3]), worst
PYTHON
}
data=(--data "$work/lines" --input "source=$work/source")
links=()
train() { "$sluice" train "$work/$1.sla" --log-every 1 --out "$work/$2" "${data[@]}" "${links[@]}" "${@:3}"; }
compile() { succeeds "compile $1" "$sluice" compile "$work/$1.json" -o "$work/$1.sla" -t cpu-avx2; }
write_spec whole 40 ''
write_spec short 16 '"batch_tokens": 32,' # 2 x 16, 4 x 8, 8 x 4, 16 x 2
write_spec long 10 '"batch_tokens": 64,'  # 4 x 16, 8 x 8, 10 x 4
for name in whole short long; do
  compile $name
done
succeeds "train on all lines in one batch" train whole whole-run --steps 3
# The number of batches of an epoch, which `--epochs` counts.
for name in short long; do
  succeeds "an epoch of $name" train $name $name-epoch --epochs 1
  batches=$(sed -n 's/^sluice: 1 epoch of 40 rows is \([0-9]*\) steps of a batch by length$/\1/p' "$work/err")
  holds "ends with its lines" 'f[0]["data"]["index"] == 0 and f[0]["data"]["epoch"] == 1' "$work/$name-epoch/checkpoints/$batches/state.json"
  succeeds "has the batches of the documentation" "$root/benchmarks/line_batches.py" "$work/$name.sla" "${data[@]}" --seed 3 \
    --metrics "$work/$name-epoch/metrics.jsonl"
  succeeds "steps of an epoch of $name" train $name $name-run --steps 3 --set "training.accumulate=$batches"
  succeeds "$name: batches of an epoch match one batch" agrees "$work/whole-run" "$work/$name-run" 2e-6
  cat "$work/out"
done
# Words of 40 lines, and of batches by length.
links=(--input "links=$work/links")
write_words words-whole 40 ''
write_words words-short 16 '"batch_tokens": 32,'
for name in whole short; do
  compile words-$name
done
succeeds "words: train on all lines in one batch" train words-whole words-whole-run --steps 3
succeeds "count the batches" train words-short words-epoch --epochs 1
batches=$(sed -n 's/^sluice: 1 epoch of 40 rows is \([0-9]*\) steps of a batch by length$/\1/p' "$work/err")
succeeds "train on batches by length" train words-short words-short-run --steps 3 --set "training.accumulate=$batches"
succeeds "words: batches of an epoch match one batch" agrees "$work/words-whole-run" "$work/words-short-run" 2e-6
cat "$work/out"
links=()
# Evaluation scores lines in their order, in batches of the first shape.
for name in whole short long; do
  succeeds "evaluate in batches of $name" "$sluice" eval "$work/$name.sla" --weights "$work/whole-run/checkpoints/3/weights.safetensors" "${data[@]}" --json
  cp "$work/out" "$work/$name-eval.json"
done
holds "the same bits" 'f[0]["nats"] == f[1]["nats"] == f[2]["nats"] and f[0]["losses"] == f[1]["losses"] == f[2]["losses"]' \
  "$work"/{whole,short,long}-eval.json
succeeds "bench runs batches of the first shape" "$sluice" bench "$work/short.sla" --steps 1 --json
cp "$work/out" "$work/full.json"
succeeds "bench runs the first batch of lines" "$sluice" bench "$work/short.sla" --steps 1 --json "${data[@]}"
holds "with their operations" 'f[0]["step_ms"] > 0 and 0 < f[0]["step_gflop"] < f[1]["step_gflop"]' "$work/out" "$work/full.json"
# The check can fail: random numbers by other rows give another run.
succeeds "train with another seed" train short seed --steps 3 --seed 4 --set training.accumulate=2
exits 1 "another seed gives another run" agrees "$work/whole-run" "$work/seed" 1e-3

# A resumed run continues inside the epoch, with the same bits.
step() { train short "$1" --set training.accumulate=2 --eval-data "$work/lines" --eval-input "source=$work/source" --eval-every 3 "${@:2}"; }
succeeds "six steps" step at-once --steps 6
succeeds "three steps" step resumed --steps 3
exits 2 "a resumed run cannot cut other batches" step resumed --steps 6 --resume --set training.batch_tokens=48
reports "the message has both values" 'expected "batch_tokens" as in the epoch that the run is in, 32, found 48.*leave --set'
succeeds "three more" step resumed --steps 6 --resume
for file in weights optimizer; do
  succeeds "a resumed run has the same $file" cmp "$work/at-once/checkpoints/6/$file.safetensors" "$work/resumed/checkpoints/6/$file.safetensors"
done
without='[{key: x for key, x in line.items() if key not in ("tokens_per_s", "set")} for line in f[%d]]'
# shellcheck disable=SC2059 # the format is the expression
holds "and the same losses" "$(printf "$without" 0) == $(printf "$without" 1)" \
  "$work/at-once/metrics.jsonl" "$work/resumed/metrics.jsonl"

rejects() { # rejects NAME EXPECTED: the spec has no artifact, and the message has a place
  exits 2 "$1" "$sluice" compile "$work/$1.json" -o "$work/$1.sla" -t cpu-avx2
  reports "with its reason" "$1.json:[0-9]+:[0-9]+: $2"
}
write_spec small 16 '"batch_tokens": 15,'
rejects small 'expected "batch_tokens" of at least 16'
write_spec large 4 '"batch_tokens": 64,'
rejects large 'expected "batch_tokens" below 64'
sed 's/"training": {/"training": { "batch_tokens": 64,/' "$root/models/tiny/vanilla.json" > "$work/text.json"
rejects text 'expected "batch_tokens" in a model with named inputs'
finish

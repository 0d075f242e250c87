#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Several losses: reported by name in training and evaluation, the head's first; labels are smoothed only in training.
# shellcheck disable=SC2317 # succeeds calls these functions
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

write_text "$work/training.txt" 60000 1
write_text "$work/held-out.txt" 3000 2
spec=$root/models/tiny/losses.json
run=$work/run

succeeds "compile" "$sluice" compile "$spec" -o "$work/model.sla"
succeeds "train" "$sluice" train "$work/model.sla" --data "$work/training.txt" --eval-data "$work/held-out.txt" --out "$run" --steps 12
cat "$work/out" "$work/err" > "$work/train.log"
succeeds "a line of training names every loss" grep -Eq 'norm [0-9.]+  bag [0-9.]+  next [0-9.]+' "$work/train.log"
holds "the minimized loss is the sum of factors times means" \
  'all(abs(m["objective"] - m["losses"]["next"] - 0.3 * m["losses"]["bag"]) < 1e-5 for m in f[0])' "$run/metrics.jsonl"
holds "the loss is the head's" 'all(m["loss"] == m["losses"]["next"] for m in f[0])' "$run/metrics.jsonl"
holds "both losses fall" 'all(f[0][-1]["losses"][n] < f[0][0]["losses"][n] for n in ("next", "bag"))' "$run/metrics.jsonl"
holds "held-out losses have names too" 'f[0][-1]["eval_losses"]["next"] == f[0][-1]["eval_loss"]' "$run/metrics.jsonl"

evaluate=(--weights "$run" --data "$work/held-out.txt" --window 64 --stride 64 --json)
succeeds "eval" "$sluice" eval "$work/model.sla" "${evaluate[@]}"
cp "$work/out" "$work/eval.json"
holds "eval scores the head's loss" \
  'abs(f[0]["losses"]["next"] - f[0]["nats"] / f[0]["tokens"]) < 1e-9 and f[0]["losses"]["bag"] > 0' "$work/eval.json"

# Bits per character: all nats over characters whose last byte is scored. Python counts them
# independently.
python3 - "$work" << 'PYTHON'
import random, sys
draw, folder = random.Random(4), sys.argv[1]
words = "vesi käy sulkuun מים זורמים nước chảy 🌊 €".split()
for name, count in (("accents", 300), ("more", 90)):
    text = "é" + " ".join(draw.choice(words) for _ in range(count)) + "🌊"
    open(f"{folder}/{name}.txt", "wb").write(text.encode())
open(f"{folder}/damaged.txt", "wb").write("käy ".encode() * 50 + b"\xe2\x82 " + "käy ".encode() * 50)
open(f"{folder}/lead.txt", "wb").write("a€".encode())
PYTHON
cat > "$work/characters.py" << 'PYTHON'
import json, math, sys
result, first, most = json.load(open(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
scored = characters = 0
for path in sys.argv[4:]:
    data = open(path, "rb").read()
    end = min(len(data), first + most - scored) if most else len(data)
    at = 0
    for character in data.decode():
        at += len(character.encode())
        characters += first < at <= end
    scored += max(0, end - first)
assert result["tokens"] == scored, (result["tokens"], scored)
assert result["characters"] == characters < scored, (result["characters"], characters)
assert math.isclose(result["bits_per_character"], result["nats"] / math.log(2) / characters, rel_tol=1e-12)
assert result["bits_per_character"] > result["bits_per_byte"] and "no_characters" not in result
PYTHON
both=("$work/accents.txt" "$work/more.txt")
# counts FIRST MOST EVAL-FLAGS: eval's result equals Python's if a file's first FIRST bytes are not scored.
counts() {
  succeeds "characters: eval, $*" "$sluice" eval "$work/model.sla" --weights "$run" --data "${both[@]}" --json --tokens "$2" "${@:3}"
  cp "$work/out" "$work/characters.json"
  succeeds "characters: counted, $*" python3 "$work/characters.py" "$work/characters.json" "$1" "$2" "${both[@]}"
}
counts 1 0
counts 1 0 --window 64 --stride 64
counts 1 0 --window 7 --stride 3
for most in 100 101 102 103 2000; do counts 1 "$most"; done
succeeds "characters: of ascii" "$sluice" eval "$work/model.sla" "${evaluate[@]}"
holds "are bytes" 'f[0]["characters"] == f[0]["tokens"] and f[0]["bits_per_character"] == f[0]["bits_per_byte"]' "$work/out"
score() { "$sluice" eval "$work/model.sla" --weights "$run" --data "$@"; }
succeeds "characters: text output" score "$work/accents.txt" --tokens 100
cp "$work/out" "$work/printed"
succeeds "are told" grep -Eq '^per character   [0-9.]+ bits, [0-9]+ characters$' "$work/printed"
succeeds "characters: invalid UTF-8" score "$work/accents.txt" "$work/damaged.txt"
cp "$work/out" "$work/printed"
succeeds "have no number, and a reason" grep -q '^per character   no number: .*damaged.txt: byte 250 is not UTF-8$' "$work/printed"
succeeds "characters: invalid UTF-8, JSON output" score "$work/damaged.txt" --json
holds "the number is null" 'f[0]["characters"] is f[0]["bits_per_character"] is None and f[0]["no_characters"].endswith("byte 250 is not UTF-8")' "$work/out"
succeeds "characters: before those bytes" score "$work/damaged.txt" --tokens 249 --json
holds "there is a number" 'f[0]["characters"] == 199' "$work/out"
succeeds "characters: without a complete one" score "$work/lead.txt" --tokens 1 --json
holds "is none" 'f[0]["characters"] is None and f[0]["no_characters"] == "no character ends among the scored bytes"' "$work/out"
succeeds "characters: train" "$sluice" train "$work/model.sla" --data "$work/training.txt" --eval-data "${both[@]}" --eval-tokens 501 --out "$work/accents" --steps 2
cat "$work/out" "$work/err" > "$work/train.log"
succeeds "a line of training has bits per character" grep -Eq 'held out: bits/byte [0-9.]+  bits/character [0-9.]+$' "$work/train.log"
holds "a loss against smoothed labels gives no bits per byte" '"loss" in f[0][-1] and "bits_per_byte" not in f[0][-1]' "$work/accents/metrics.jsonl"
succeeds "and a note says so" grep -q 'trains on smoothed labels or a target, so lines of training have no bits per byte' "$work/train.log"
succeeds "characters: eval of that" "$sluice" eval "$work/model.sla" --weights "$work/accents" --data "${both[@]}" --tokens 501 --json
holds "metrics match eval" \
  'all(f[0][-1]["eval_" + key] == f[1][key] for key in ("bits_per_byte", "bits_per_character", "characters"))' "$work/accents/metrics.jsonl" "$work/out"
succeeds "characters: train, on invalid UTF-8" "$sluice" train "$work/model.sla" --data "$work/training.txt" --eval-data "$work/damaged.txt" --out "$work/damaged" --steps 2
holds "metrics name the reason for null" 'f[0][-1]["eval_bits_per_character"] is None and f[0][-1]["eval_no_characters"].endswith("byte 250 is not UTF-8")' "$work/damaged/metrics.jsonl"
succeeds "characters: report" "$sluice" report "$work/accents"
succeeds "has them" grep -Eq 'bits per byte<small>step 2, [0-9.]+ bits per character, the first 501 tokens alone' "$work/accents/report.html"
succeeds "characters: comparison" "$sluice" report "$work/accents" "$work/damaged"
succeeds "has them, or the reason" grep -Eq 'bits per byte</th><td>[0-9.]+<small>step 2, [0-9.]+ bits per character.*no bits per character \(.*byte 250' "$work/accents/comparison.html"
succeeds "report: a curve of only held-out text" "$sluice" report "$work/accents" --curve "$work/curve.svg"
succeeds "is an SVG file with its legend" grep -q '>held out, per character</text>' "$work/curve.svg"
exits 2 "report: a curve of two runs" "$sluice" report "$work/accents" "$work/damaged" --curve "$work/curve.svg"
cp "$work/err" "$work/printed"
succeeds "names the flag" grep -q "expected one run with --curve, found 2; draw each run's curve alone" "$work/printed"
# A model that omits its first rows.
succeeds "characters: a model with first rows" "$sluice" compile "$root/models/tiny/top-down.json" -t cpu-avx2 -o "$work/first.sla"
succeeds "characters: its weights" "$sluice" train "$work/first.sla" --out "$work/first" --steps 0
succeeds "characters: its eval" "$sluice" eval "$work/first.sla" --cpu-target cpu-avx2 --weights "$work/first" --data "${both[@]}" --json
cp "$work/out" "$work/characters.json"
left=$(python3 -c 'import json, os, sys; print((sum(map(os.path.getsize, sys.argv[2:])) - json.load(open(sys.argv[1]))["tokens"]) // 2)' "$work/characters.json" "${both[@]}")
succeeds "omits some characters" test "$left" -gt 1
succeeds "characters: counted after the first rows" python3 "$work/characters.py" "$work/characters.json" "$left" 0 "${both[@]}"

# The same model without the other loss and without smoothing: its weights fit, and the score is bitwise equal.
python3 - "$spec" "$work/plain.json" << 'PYTHON'
import json, sys
spec = json.load(open(sys.argv[1]))
spec["stages"] = [s for s in spec["stages"] if s["op"] != "loss"]
del spec["stages"][-1]["label_smoothing"]
json.dump(spec, open(sys.argv[2], "w"))
PYTHON
succeeds "compile the plain model" "$sluice" compile "$work/plain.json" -o "$work/plain.sla"
succeeds "rename weights after the loss" python3 - "$run" "$work/plain.safetensors" << 'PYTHON'
import json, pathlib, re, struct, sys
run = pathlib.Path(sys.argv[1])
steps = sorted((run / "checkpoints").iterdir(), key=lambda p: int(p.name))
data = next(steps[-1].glob("*weights*")).read_bytes()
size = struct.unpack("<Q", data[:8])[0]
header = {re.sub(r"^stages\.(\d+)", lambda m: f"stages.{int(m[1]) - (int(m[1]) > 6)}", name): entry
          for name, entry in json.loads(data[8:8 + size]).items() if name != "__metadata__"}
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
pathlib.Path(sys.argv[2]).write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size:])
PYTHON
evaluate[1]=$work/plain.safetensors
succeeds "eval of the plain model" "$sluice" eval "$work/plain.sla" "${evaluate[@]}"
cp "$work/out" "$work/plain.eval.json"
holds "evaluation uses plain labels" 'f[0]["nats"] == f[1]["nats"] and "losses" not in f[1]' "$work/eval.json" "$work/plain.eval.json"

succeeds "certificate" "$sluice" check "$spec" --no-advice --certificate "$work/certificate"
succeeds "an independent reading agrees" "$root/build/bin/sluice-certify" "$spec" "$work/certificate" --enumerate
sed 's/"factor": 0.3/"factor": 0.3, "shift": 2/' "$spec" > "$work/leaky.json"
exits 1 "a group scored against its own token is rejected" "$sluice" check "$work/leaky.json" --json
cp "$work/out" "$work/leak.json"
holds "with a witness" 'f[0]["verdict"] == "leak" and f[0]["witness"]["token"] > f[0]["witness"]["row"]' "$work/leak.json"
sed 's/"name": "bag"/"name": "next"/' "$spec" > "$work/named.json"
exits 2 "the head's name is reserved" "$sluice" check "$work/named.json"
cp "$work/err" "$work/message"
succeeds "and the message says so" grep -q 'the head.s loss' "$work/message"

# A model that ends in a loss among rows: bitwise resumed, with candidates of further texts; it predicts no token.
spec=$root/models/tiny/contrast.json
succeeds "contrast: compile" "$sluice" compile "$spec" -t cpu-avx2 -o "$work/rows.sla"
train=("$sluice" train "$work/rows.sla" --cpu-target cpu-avx2 --data "$work/training.txt")
succeeds "contrast: train" "${train[@]}" --out "$work/rows" --steps 6
holds "has bits per chunk" 'abs(f[0][-1]["bits_per_chunk"] - f[0][-1]["loss"] / math.log(2)) < 1e-9 and "bits_per_byte" not in f[0][-1]' "$work/rows/metrics.jsonl"
succeeds "contrast: train in two parts" "${train[@]}" --out "$work/parts" --steps 3
succeeds "contrast: resume" "${train[@]}" --out "$work/parts" --steps 6 --resume
succeeds "has the same weights" cmp "$work/rows/checkpoints/6/weights.safetensors" "$work/parts/checkpoints/6/weights.safetensors"
scored=("$work/rows.sla" --cpu-target cpu-avx2 --weights "$work/rows")
succeeds "contrast: eval" "$sluice" eval "${scored[@]}" --data "$work/held-out.txt" --json
holds "names the batch, and has no bits per byte" \
  'f[0]["bits_per_byte"] is f[0]["bits_per_token"] is None and "not scored; a row chooses among the rows of its own batch of at most 4 windows" in f[0]["protocol"] and f[0]["stride"] == 28' "$work/out"
holds "has bits per chunk" \
  'f[0]["bits_per_chunk"] == f[0]["files"][0]["bits_per_chunk"] > 0 and f[0]["files"][0]["chunks"] == f[0]["chunks"]["next"]' "$work/out"
exits 2 "contrast: generate" "$sluice" generate "${scored[@]}" --prompt "a longer prompt"
cp "$work/err" "$work/printed"
succeeds "is rejected" grep -q 'expected a model that predicts tokens, found one that ends in a contrast' "$work/printed"
exits 2 "contrast: logits" "$sluice" logits "${scored[@]}" --data "$work/held-out.txt" -o "$work/rows.npy"
cp "$work/err" "$work/printed"
succeeds "are rejected" grep -q 'expected a model that predicts tokens, found one that ends in a contrast' "$work/printed"

# Windows of 32 bytes begin every 28th byte. The same window twice has each candidate twice; the order of windows changes nothing.
python3 - "$work" << 'PYTHON'
import sys
one, other = "the cat sat on the mat and on", "the dog ran to the sea or the"
for name, text in {"once": one[:28] + one[:5], "twice": one[:28] * 2 + one[:5], "ordered": one[:28] + other[:28] + one[:5],
                   "reversed": other[:28] + one[:28] + one[:5], "constant": "x" * 400, "rows": "a bc d ef gh ijk l mnop " * 40}.items():
    open(f"{sys.argv[1]}/{name}.txt", "w").write(text)
PYTHON
for name in once twice ordered reversed; do
  succeeds "contrast: eval of a text $name" "$sluice" eval "${scored[@]}" --data "$work/$name.txt" --json
  cp "$work/out" "$work/$name.json"
done
holds "chunks are counted" 'f[0]["chunks"] == {"next": 7} and f[1]["chunks"] == {"next": 14}' "$work/once.json" "$work/twice.json"
holds "twice the candidates cost log 2" 'abs(f[1]["nats"] / 14 - f[0]["nats"] / 7 - 0.69314718) < 1e-5' "$work/once.json" "$work/twice.json"
holds "the order of candidates costs rounding" 'abs(f[0]["nats"] - f[1]["nats"]) < 1e-5 * f[0]["nats"]' "$work/ordered.json" "$work/reversed.json"

# The mean is over the chunks of an update, whatever its number of batches.
for count in 1 2; do
  cat > "$work/words-$count.json" << EOF
{ "sluice": 1, "vocabulary": 256, "context": 24, "batch": 2, "width": 8,
  "stages": [{ "op": "embedding" }, { "op": "boundaries", "name": "words", "rule": "whitespace" }, { "op": "shorten", "segments": "words", "to": "words" },
             { "op": "recurrence" }, { "op": "contrast", "candidates": "words" }],
  "training": { "accumulate": $count, "learning_rate": 1e-20, "clip": 0, "schedule": { "kind": "constant", "warmup": 0 } } }
EOF
  succeeds "contrast: compile, $count batches an update" "$sluice" compile "$work/words-$count.json" -t cpu-avx2 -o "$work/words-$count.sla"
  train=("$sluice" train "$work/words-$count.sla" --cpu-target cpu-avx2 --save-every 9)
  for text in rows training constant; do
    succeeds "contrast: train on $text" "${train[@]}" --data "$work/$text.txt" --out "$work/$text-$count" --steps $((3 - count)) --log-every 1
  done
done
holds "equal batches have the gradient of one" 'abs(f[0][0]["grad_norm"] / f[1][0]["grad_norm"] - 1) < 1e-5 and f[0][0]["chunks"]["next"] * 2 == f[1][0]["chunks"]["next"]' \
  "$work/rows-1/metrics.jsonl" "$work/rows-2/metrics.jsonl"
holds "batches count by their chunks" \
  'abs(sum(m["loss"] * m["chunks"]["next"] for m in f[0]) / f[1][0]["chunks"]["next"] / f[1][0]["loss"] - 1) < 1e-5' \
  "$work/training-1/metrics.jsonl" "$work/training-2/metrics.jsonl"
holds "a checkpoint weighs batches by their chunks" 'abs(f[0]["losses"]["own"] / f[1][0]["loss"] - 1) < 1e-5' \
  "$work/training-2/checkpoints/1/state.json" "$work/training-2/metrics.jsonl"
holds "no chunk, no loss" 'f[0][0]["loss"] is None and f[0][0]["chunks"]["next"] == 0 and f[0][0]["grad_norm"] == 0' "$work/constant-2/metrics.jsonl"
exits 2 "contrast: eval without chunks" "$sluice" eval "$work/words-1.sla" --weights "$work/rows-1" --data "$work/constant.txt"
cp "$work/err" "$work/printed"
succeeds "is rejected" grep -q 'constant.txt: expected text in which a chunk follows another one' "$work/printed"
words=("$work/words-1.sla" --cpu-target cpu-avx2 --weights "$work/rows-1")
succeeds "contrast: eval of a file with chunks and one without" "$sluice" eval "${words[@]}" --data "$work/rows.txt" "$work/constant.txt"
cp "$work/out" "$work/printed"
succeeds "has bits per chunk" grep -Eq '^ +[0-9.]+ +[0-9]+  .*rows.txt$' "$work/printed"
succeeds "or none" grep -Eq '^ +- +0  .*constant.txt$' "$work/printed"
succeeds "contrast: train with held-out text without chunks" "$sluice" train "$work/words-1.sla" --cpu-target cpu-avx2 --data "$work/rows.txt" \
  --eval-data "$work/constant.txt" --eval-every 1 --patience 1 --out "$work/none" --steps 3
cat "$work/out" "$work/err" > "$work/printed"
succeeds "says so once" test "$(grep -c 'no held-out chunk follows' "$work/printed")" = 1
holds "every evaluation is null" 'len(f[0]) == 3 and all(m["eval_loss"] is m["eval_bits_per_chunk"] is None for m in f[0])' "$work/none/metrics.jsonl"
succeeds "contrast: report" "$sluice" report "$work/none"
succeeds "has bits per chunk and no segments" grep -Eq '[0-9.]+ bits per chunk' "$work/none/report.html"
succeeds "which it says" grep -q 'Boundaries are not shown: the model ends in a contrast' "$work/none/report.html"
rejects() {
  exits 2 "contrast: $1" "$sluice" "$@"
  cp "$work/err" "$work/printed"
  succeeds "is rejected" grep -q 'words-1.sla: expected a model that predicts tokens, found one that ends in a contrast' "$work/printed"
}
rejects boundaries "${words[@]}" --data "$work/rows.txt"
rejects analyze attention "${words[@]}" --data "$work/rows.txt" --layer x
rejects analyze neighbours "${words[@]}" --data "$work/rows.txt" --stream words
rejects bench "$work/words-1.sla" --generate
finish

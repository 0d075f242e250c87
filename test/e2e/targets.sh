#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Inputs of numbers: soft targets and weights of rows. Python computes the same losses and gradient; the proof; rejected files.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

targets=cpu-avx2
spec="$root/models/tiny/distill.json"
reports() {
  if grep -qE -- "$2" "$work/err"; then pass "$1"; else fail "$1" "expected '$2' in:" "$(tail -n 5 "$work/err")"; fi
}
# A model of one matrix, so Python can compute every number: a row of a batch is the complete text.
cat > "$work/one.json" << 'JSON'
{ "sluice": 1, "vocabulary": 128, "context": 24, "batch": 1, "width": 16,
  "inputs": { "teacher": { "axis": "tokens", "role": "target" }, "mask": { "axis": "tokens", "role": "weight" } },
  "stages": [ { "op": "embedding" },
    { "op": "loss", "name": "soft", "tied": true, "factor": 0.5, "target": "teacher", "weights": "mask" },
    { "op": "head", "tied": true } ],
  "training": { "clip": 0 } }
JSON
python3 - "$work" << 'PYTHON'
import array, random, sys
folder = sys.argv[1]
random.seed(7)
open(f"{folder}/text", "wb").write(bytes(random.randrange(97, 123) for _ in range(25)))
def save(name, rows, shape=None, kind="f"):
    header = f"{{'descr': '<{kind}{array.array(kind).itemsize}', 'fortran_order': False, 'shape': {shape or (len(rows), len(rows[0]))}, }}"
    header = header.replace("<d", "<f").ljust(117) + "\n"
    numbers = array.array(kind, [x for row in rows for x in row])
    open(f"{folder}/{name}.npy", "wb").write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + numbers.tobytes())
shares = []
for _ in range(25):
    row = [random.random() ** 8 for _ in range(128)]
    shares.append([x / sum(row) for x in row])
save("teacher", shares)
save("mask", [[random.randrange(4) / 2] for _ in range(25)], (25,))
save("nothing", [[0]] * 25)
save("faint", [[1e-45]] * 25)
save("short", shares[1:])
save("narrow", [row[1:] for row in shares])
save("double", shares, kind="d")
for name, value in (("nan", float("nan")), ("negative", -0.25), ("sum", 0.5)):
    save(name, shares[:3] + [shares[3][:5] + [value] + shares[3][6:]] + shares[4:])
PYTHON
numbers=(--input "teacher=$work/teacher.npy" --input "mask=$work/mask.npy")
# shellcheck disable=SC2317 # checks call it, and the next
train() { "$sluice" train "$work/one.sla" --cpu-target "$targets" --data "$work/text" --steps 1 "$@"; }
# shellcheck disable=SC2317
score() { "$sluice" eval "$work/one.sla" --cpu-target "$targets" --weights "$work/start" --data "$work/text" --json "$@"; }
succeeds "compile" "$sluice" compile "$work/one.json" -t "$targets" -o "$work/one.sla"
succeeds "initial weights" "$sluice" train "$work/one.sla" --steps 0 --out "$work/start"
succeeds "train" train "${numbers[@]}" --out "$work/run"
succeeds "eval" score --input "teacher=$work/teacher.npy"
cp "$work/out" "$work/scored.json"
succeeds "eval without the teacher" score
cp "$work/out" "$work/alone.json"
succeeds "the loss matches float64" python3 - "$work" << 'PYTHON'
import array, json, math, struct, sys
folder = sys.argv[1]
raw = open(f"{folder}/start/checkpoints/0/weights.safetensors", "rb").read()
size = struct.unpack("<Q", raw[:8])[0]
begin, end = json.loads(raw[8 : 8 + size])["stages.0.token.weight"]["data_offsets"]
numbers = array.array("f", raw[8 + size + begin : 8 + size + end])
table = [numbers[16 * v : 16 * v + 16] for v in range(128)]
text = open(f"{folder}/text", "rb").read()
load = lambda name: array.array("f", open(f"{folder}/{name}.npy", "rb").read()[128:])
teacher, mask = load("teacher"), load("mask")[:24]
gradient, hard, soft = [[0.0] * 16 for _ in table], [], []
for t in range(24):
    x = table[text[t]]
    logits = [sum(a * b for a, b in zip(x, row)) for row in table]
    lse = math.log(sum(map(math.exp, logits)))
    wanted = teacher[128 * t : 128 * t + 128]
    hard.append(lse - logits[text[t + 1]])
    soft.append(sum(y * (lse - z) for y, z in zip(wanted, logits)))
    for v, row in enumerate(table):
        chance = math.exp(logits[v] - lse)
        g = (chance - (v == text[t + 1])) / 24 + 0.5 * mask[t] / sum(mask) * (chance * sum(wanted) - wanted[v])
        for i in range(16):
            gradient[v][i] += g * x[i]
            gradient[text[t]][i] += g * row[i]
weighted = sum(w * nats for w, nats in zip(mask, soft)) / sum(mask)
step = json.loads(open(f"{folder}/run/metrics.jsonl").readline())
scored = json.load(open(f"{folder}/scored.json"))
pairs = {"soft": (step["losses"]["soft"], weighted), "next": (step["loss"], sum(hard) / 24),
         "objective": (step["objective"], sum(hard) / 24 + 0.5 * weighted),
         "norm": (step["grad_norm"], math.sqrt(sum(g * g for row in gradient for g in row))),
         "eval": (scored["losses"]["soft"], sum(soft) / 24)}
print(pairs)
sys.exit(any(not abs(a - b) < 1e-5 * abs(b) for a, b in pairs.values()))
PYTHON
holds "an absent teacher gives no loss" '"soft" not in f[0].get("losses", {})' "$work/alone.json"
succeeds "weights whose sum is zero" train --input "teacher=$work/teacher.npy" --input "mask=$work/nothing.npy" --out "$work/nothing"
holds "add nothing" 'f[0][0]["losses"]["soft"] == 0 and f[0][0]["objective"] == f[0][0]["loss"]' "$work/nothing/metrics.jsonl"

refuses() { # NAME FILE MESSAGE
  exits 2 "$1" train --input "teacher=$work/$2.npy" --input "mask=$work/mask.npy" --out "$work/none"
  reports "$1: the message" "$3"
}
exits 2 "weights whose sum overflows f32" train --input "teacher=$work/teacher.npy" --input "mask=$work/faint.npy" --out "$work/none"
reports "weights whose sum overflows f32: the message" 'row 0: expected a weight of 0 or from 1e-18 to 1e\+18, as ratios alone count, found 1.4013e-45'
refuses "another shape" narrow 'shape \(25, 128\), a row for each byte of .*, found \(25, 127\)'
refuses "another length" short 'found \(24, 128\)'
refuses "another type" double "little-endian f32 .* found numbers of the type \"<f8\""
refuses "no number" nan 'row 3: expected finite numbers of at least 0, found nan'
refuses "a negative probability" negative 'row 3: expected finite numbers of at least 0, found -0.25'
refuses "another sum" sum 'row 3: expected probabilities that add up to 1'
exits 2 "an invalid .npy file" train --input "teacher=$work/text" --input "mask=$work/mask.npy" --out "$work/none"
reports "an invalid .npy file: the message" 'found no .npy file'
exits 2 "no weights" train --input "teacher=$work/teacher.npy" --out "$work/none"
reports "the message names the missing input" 'expected --input mask=FILE'
exits 2 "weights that evaluation does not read" score --input "mask=$work/mask.npy"
reports "why not" 'which training alone reads'
exits 2 "another input" score --input "sauce=$work/mask.npy"
reports "the message names the inputs" 'which has "mask", "teacher", found "sauce"'

# A teacher's logits become a target.
succeeds "logits" "$sluice" logits "$work/one.sla" --cpu-target "$targets" --weights "$work/start" --data "$work/text" --out "$work/logits.npy"
succeeds "distributions" python3 "$root/scripts/soft_targets.py" "$work/logits.npy" "$work/self.npy" --temperature 1
succeeds "eval against itself" score --input "teacher=$work/self.npy"
cp "$work/out" "$work/self.json"
holds "is its entropy, below the loss" '0 < f[0]["losses"]["soft"] <= 4.852031' "$work/self.json" # log 128

succeeds "check" "$sluice" check "$spec" --certificate "$work/certificate"
succeeds "certify" "$root/build/bin/sluice-certify" "$spec" "$work/certificate"
cp "$work/out" "$work/certified"
succeeds "training by itself" grep -q 'train' "$work/certified"
exits 1 "a teacher that the model reads is rejected" "$sluice" check "$root/test/causality/leaky/numbers-as-input.json"
cat "$work/out" "$work/err" > "$work/leak"
succeeds "with a row that changes in the replay" grep -q 'replay of the reference: with token 1 changed, row 0 changed' "$work/leak"
finish

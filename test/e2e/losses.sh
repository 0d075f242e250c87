#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Several losses: reported by name in training and evaluation, the head's leads; labels are smoothed in training alone.
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
holds "what is minimized is the sum of factors times means" \
  'all(abs(m["objective"] - m["losses"]["next"] - 0.3 * m["losses"]["bag"]) < 1e-5 for m in f[0])' "$run/metrics.jsonl"
holds "the loss is the head's" 'all(m["loss"] == m["losses"]["next"] for m in f[0])' "$run/metrics.jsonl"
holds "both losses fall" 'all(f[0][-1]["losses"][n] < f[0][0]["losses"][n] for n in ("next", "bag"))' "$run/metrics.jsonl"
holds "held-out losses have names too" 'f[0][-1]["eval_losses"]["next"] == f[0][-1]["eval_loss"]' "$run/metrics.jsonl"

evaluate=(--weights "$run" --data "$work/held-out.txt" --window 64 --stride 64 --json)
succeeds "eval" "$sluice" eval "$work/model.sla" "${evaluate[@]}"
cp "$work/out" "$work/eval.json"
holds "the head's loss is what is scored" \
  'abs(f[0]["losses"]["next"] - f[0]["nats"] / f[0]["tokens"]) < 1e-9 and f[0]["losses"]["bag"] > 0' "$work/eval.json"

# The same model without the other loss and without smoothing: its weights fit, and it scores alike, bit for bit.
python3 - "$spec" "$work/plain.json" << 'PYTHON'
import json, sys
spec = json.load(open(sys.argv[1]))
spec["stages"] = [s for s in spec["stages"] if s["op"] != "loss"]
del spec["stages"][-1]["label_smoothing"]
json.dump(spec, open(sys.argv[2], "w"))
PYTHON
succeeds "compile the plain model" "$sluice" compile "$work/plain.json" -o "$work/plain.sla"
succeeds "rename weights behind the loss" python3 - "$run" "$work/plain.safetensors" << 'PYTHON'
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
holds "evaluation is of plain labels" 'f[0]["nats"] == f[1]["nats"] and "losses" not in f[1]' "$work/eval.json" "$work/plain.eval.json"

succeeds "certificate" "$sluice" check "$spec" --no-advice --certificate "$work/certificate"
succeeds "an independent reading agrees" "$root/build/bin/sluice-certify" "$spec" "$work/certificate" --enumerate
sed 's/"factor": 0.3/"factor": 0.3, "shift": 2/' "$spec" > "$work/leaky.json"
exits 1 "a group against a token of its own is refused" "$sluice" check "$work/leaky.json" --json
cp "$work/out" "$work/leak.json"
holds "with a witness" 'f[0]["verdict"] == "leak" and f[0]["witness"]["token"] > f[0]["witness"]["row"]' "$work/leak.json"
sed 's/"name": "bag"/"name": "next"/' "$spec" > "$work/named.json"
exits 2 "the head's name is taken" "$sluice" check "$work/named.json"
cp "$work/err" "$work/message"
succeeds "and the message says so" grep -q 'the head.s loss' "$work/message"
finish

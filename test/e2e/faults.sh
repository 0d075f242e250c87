#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Faults that a run meets: kills at random moments, a terminal that hangs up, an evaluation during training, JSON that
# nests 100,000 levels deep, numbers that overflow. FAULTS sets the number of kills.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

cat > "$work/spec.json" << 'SPEC'
{
  "sluice": 1, "name": "faults", "vocabulary": 256, "context": 32, "batch": 2, "width": 32,
  "defaults": { "heads": 2 },
  "stages": [ { "op": "embedding" }, { "op": "layer" }, { "op": "head" } ],
  "training": { "schedule": { "kind": "constant", "steps": 600, "warmup": 10 } }
}
SPEC
write_text "$work/text" 20000 1
succeeds "compile" "$sluice" compile "$work/spec.json" -o "$work/model.sla"
base=("$sluice" train "$work/model.sla" --data "$work/text" --threads 1)
train=("${base[@]}" --save-every 40 --keep 2)

# After a kill at any moment, the next training continues or restarts, and ends in the same bytes.
succeeds "an uninterrupted training" "${train[@]}" --out "$work/whole"
if python3 - "$work" "${FAULTS:-25}" "${train[@]}" > "$work/out" 2>&1 << 'PYTHON'
import filecmp, json, os, random, shutil, signal, subprocess, sys, time
work, kills, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
draw = random.Random(7)
def curve(run):
    with open(run + "/metrics.jsonl") as file:
        lines = [json.loads(line) for line in file]
    return [(m["step"], m["loss"], m["grad_norm"]) for m in lines]
begin = time.time()
subprocess.run(command + ["--out", work + "/timed"], check=True, capture_output=True)
longest = time.time() - begin
done = ended = anew = 0
run = work + "/killed"
while done < kills:
    exists = os.path.isdir(run)
    # A run without a checkpoint can be given with --resume and without, as can an empty folder and a
    # missing one.
    saved = exists and os.path.exists(run + "/latest") or os.path.isdir(run + "/checkpoints") and any(
        name.isdigit() for name in os.listdir(run + "/checkpoints"))
    resume = saved or draw.random() < 0.5
    anew += exists and not saved
    process = subprocess.Popen(command + ["--out", run] + ["--resume"] * resume, stderr=subprocess.PIPE, text=True)
    # A third of the kills fall into the start of a process, a third after a run's first file. Some runs end.
    kind = "none" if ended * 10 < done - 5 else draw.choice(("start", "first", "any"))
    while kind == "first" and process.poll() is None and not os.path.exists(run + "/spec.json"):
        time.sleep(0.002)
    try:
        process.wait(timeout=None if kind == "none" else draw.uniform(0, longest * {"start": 0.1, "first": 0.05, "any": 0.8}[kind]))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    message = process.stderr.read()
    if process.returncode == 0:
        ended += 1
        same = curve(run) == curve(work + "/whole") and all(
            filecmp.cmp(run + "/checkpoints/600/" + name, work + "/whole/checkpoints/600/" + name, shallow=False)
            for name in ("weights.safetensors", "optimizer.safetensors", "state.json"))
        left = [name for folder in (run, run + "/checkpoints") for name in os.listdir(folder) if "tmp-" in name]
        if not same or left:
            sys.exit(f"after {done} kills, {ended} runs: same {same}, left {left}")
        shutil.rmtree(run)
    elif process.returncode == -signal.SIGKILL:
        done += 1
    else:
        sys.exit(f"after {done} kills: status {process.returncode}: {message}")
print(f"{done} kills, {ended} runs that ended, {anew} begun anew")
PYTHON
then pass "kills at random moments: $(cat "$work/out")"; else fail "kills at random moments" "$(tail -n 5 "$work/out")"; fi

# SIGHUP saves, like SIGTERM; under nohup it is ignored. interrupted SIGNAL RUN [EARLIER SIGNAL]
hearing=(--default-signal=HUP) # this script may run under nohup itself
# shellcheck disable=SC2317 # called by name
interrupted() {
  local signal=$1 run=$2 status=0 process
  env "${hearing[@]}" "${train[@]}" --steps 1000000 --out "$run" 2> "$work/err" &
  process=$!
  while [[ ! -s $run/metrics.jsonl ]] && kill -0 "$process"; do sleep 0.05; done
  for each in ${3:+"$3"} "$signal"; do kill "-$each" "$process"; sleep 0.2; done
  wait "$process" || status=$?
  [[ -f $run/latest && $status -eq $((128 + $(kill -l "$signal"))) ]]
}
succeeds "SIGTERM saves a checkpoint" interrupted TERM "$work/term"
succeeds "SIGHUP saves a checkpoint" interrupted HUP "$work/hup"
hearing=(--ignore-signal=HUP)
succeeds "nohup's SIGHUP does nothing" interrupted TERM "$work/nohup" HUP

# A signal inside a step of 200 s ends it; the steps before are saved. interrupted_step SIGNALS...
succeeds "five steps" "${base[@]}" --steps 5 --out "$work/batches"
# shellcheck disable=SC2317 # called by name
interrupted_step() {
  local status=0 process
  "$sluice" train --resume "$work/batches" --steps 9 --set training.accumulate=1000000 2> "$work/err" &
  process=$!
  while ! grep -q 'resumed after' "$work/err" && kill -0 "$process"; do sleep 0.05; done
  sleep 0.3
  for each in "$@"; do kill "-$each" "$process"; done
  timeout 20 tail --pid="$process" -f /dev/null || kill -KILL "$process"
  wait "$process" || status=$?
  [[ $status -eq $((128 + $(kill -l "$1"))) && $(cat "$work/batches/latest") == 5 ]] &&
    grep -q "^continue with: sluice train --resume $work/batches\$" "$work/err"
}
succeeds "SIGTERM inside a step" interrupted_step TERM
succeeds "two signals inside a step" interrupted_step TERM TERM

# Evaluates during a training that retains one checkpoint, which is removed again and again.
"${base[@]}" --steps 1000000 --save-every 1 --keep 1 --out "$work/beside" 2> "$work/beside.err" &
training=$!
while [[ ! -s $work/beside/latest ]] && kill -0 "$training"; do sleep 0.05; done
# shellcheck disable=SC2317 # called by name
beside() { for _ in {1..15}; do "$sluice" eval "$work/model.sla" --weights "$work/beside" --data "$work/text" --tokens 64 || return; done; }
succeeds "evaluation during a training that retains one checkpoint" beside
kill -TERM "$training"
wait "$training" || true

# An export on a full disk: room for the weights (6 KB), but not for model.py (8 KB) too. The second one replaces an earlier export.
cat > "$work/narrow.json" << 'SPEC'
{
  "sluice": 1, "vocabulary": 256, "context": 8, "batch": 1, "width": 4, "defaults": { "heads": 1, "feed_forward": 4, "rotary": true },
  "stages": [ { "op": "embedding" }, { "op": "layer" }, { "op": "head", "tied": true } ]
}
SPEC
succeeds "compile a narrow model" "$sluice" compile "$work/narrow.json" -o "$work/narrow.sla"
succeeds "initialize it" "$sluice" train "$work/narrow.sla" --data "$work/text" --steps 0 --out "$work/narrow"
mkdir "$work/disk"
export_narrow=("$sluice" export "$work/narrow.sla" --weights "$work/narrow" -o)
# full_disk COMMAND...: with a disk of SIZE on $work/disk
# shellcheck disable=SC2317,SC2016 # called by name; bash -c expands
full_disk() { unshare -m bash -c 'mount -t tmpfs -o "size=$1" none "$2" && shift 2 && "$@"' bash "$size" "$work/disk" "$@"; }
size=12k
if full_disk true 2> /dev/null; then
  # shellcheck disable=SC2016 # bash -c expands
  exits 1 "export on a full disk" full_disk bash -c '"$@" "$work/disk/new/out"; status=$?; ls -A "$work/disk"; exit $status' bash "${export_narrow[@]}"
  cp "$work/out" "$work/left"
  cp "$work/err" "$work/message"
  succeeds "it names the file" grep -q 'model.py: cannot write: No space left on device' "$work/message"
  succeeds "it leaves nothing" test ! -s "$work/left"
  size=28k
  # shellcheck disable=SC2016 # bash -c expands
  exits 1 "export again on a full disk" full_disk bash -c '
    "$@" "$work/disk/out" && cp -r "$work/disk/out" "$work/earlier" || exit 9
    "$@" "$work/disk/out"; status=$?; diff -r "$work/earlier" "$work/disk/out" || exit 8; exit $status' bash "${export_narrow[@]}"
else
  echo "no mounts: an export on a full disk is not tested"
fi

# Deep JSON, in every command that reads JSON.
deep() { python3 -c 'import sys; sys.stdout.write(sys.argv[1] + "[" * 100000 + "]" * 100000 + sys.argv[2])' "$@"; }
refuses_deep() {
  local name=$1
  shift
  exits 2 "deep JSON: $name" "$@"
  cp "$work/err" "$work/message"
  succeeds "deep JSON: $name, the message" grep -qE 'nest|inside one another' "$work/message"
}
cp -r "$work/whole" "$work/deep"
deep '{"checksum": "", "x": ' '}' > "$work/deep/checkpoints/600/state.json"
refuses_deep "state.json" "${train[@]}" --out "$work/deep" --resume
python3 - "$work" << 'PYTHON'
import struct, sys
header = b'{"x":{"dtype":"F32","data_offsets":[0,4],"shape":' + b"[" * 100000 + b"]" * 100000 + b"}}"
open(sys.argv[1] + "/deep.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + bytes(4))
PYTHON
refuses_deep "safetensors" "$sluice" eval "$work/model.sla" --weights "$work/deep.safetensors" --data "$work/text"
deep '{"format": ' '}' > "$work/deep.json"
refuses_deep "tuning" "$sluice" compile "$work/spec.json" -o "$work/no.sla" --target cpu,sm_80 --precision bf16 --tuning "$work/deep.json"
deep '{"sluice": 1, "vocabulary": ' '}' > "$work/spec-deep.json"
refuses_deep "spec" "$sluice" check "$work/spec-deep.json"
refuses_deep "spec of the certificate's checker" "$root/build/bin/sluice-certify" "$work/spec-deep.json" "$work/spec.json"
mkdir "$work/bundle"
cp "$work/deep.json" "$work/bundle/bundle.json"
refuses_deep "bundle" "$root/build/bin/sluice-gpu-check" run "$work/bundle" -o "$work/results"
deep '{"name": ' '}' > "$work/deep/costs.json"
deep '{"step": 1, "loss": ' '}' >> "$work/deep/metrics.jsonl"
succeeds "deep JSON: report" "$sluice" report "$work/deep"
succeeds "and reports the damaged line" grep -q 'Damaged lines of metrics.jsonl.*: 1' "$work/deep/report.html"
finish

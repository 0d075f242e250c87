#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Training by 2 and 3 processes with a GPU each, on fakes of NVIDIA's driver and NCCL: the bits of one process, and messages.
# shellcheck disable=SC2317 # succeeds and exits call these functions
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # otherwise Open MPI rejects root
fakes=$root/build/lib
mkdir "$work/messages"
export SLUICE_CUDA_DRIVER=$fakes/libsluice_fake_cuda.so SLUICE_NCCL=$fakes/libsluice_fake_nccl.so
export FAKE_CUDA_KERNELS=$work/words.sla FAKE_CUDA_COUNT=3 FAKE_NCCL_FOLDER=$work/messages

PATH=$(path_without_ptxas)
write_text "$work/text" 6000 1
cat > "$work/words.json" << 'SPEC'
{ "sluice": 1, "vocabulary": 256, "context": 20, "batch": 1, "width": 16, "seed": 3,
  "defaults": { "heads": 2, "feed_forward": 20, "dropout": 0.2, "attention_dropout": 0.2 },
  "stages": [ { "op": "embedding", "dropout": 0.2 }, { "op": "layer", "to": "x" },
    { "op": "boundaries", "name": "words", "predictor": 8, "prior": 0.3 }, { "op": "shorten", "segments": "words" },
    { "op": "shift", "by": 1, "start": "null" }, { "op": "layer" }, { "op": "upsample", "segments": "words", "by": 0 },
    { "op": "add", "with": "x" }, { "op": "head" } ],
  "training": { "accumulate": 6, "learning_rate": 0.01, "clip": 0.5,
                "schedule": { "kind": "constant", "warmup": 0, "steps": 4 } } }
SPEC
succeeds "compile" "$sluice" compile "$work/words.json" --target cpu-avx2,sm_80 -o "$work/words.sla"
arguments=(train "$work/words.sla" --data "$work/text" --log-every 1 --steps 3)
together() { mpirun --oversubscribe -n "$1" "$sluice" "${arguments[@]}" --device cuda "${@:2}"; }
# same NAME RUN OTHER
same() {
  local file
  for file in weights.safetensors optimizer.safetensors state.json; do
    cmp "$work/$2/checkpoints/3/$file" "$work/$3/checkpoints/3/$file" > "$work/out" 2>&1 || { fail "$1" "$(cat "$work/out")"; return; }
  done
  holds "$1" '[dict(m, tokens_per_s=0, exchange_ms=0) for m in f[0]] == [dict(m, tokens_per_s=0, exchange_ms=0) for m in f[1]]' \
    "$work/$2/metrics.jsonl" "$work/$3/metrics.jsonl"
}
succeeds "one process" "$sluice" "${arguments[@]}" --device cuda --out "$work/one"
for count in 2 3; do
  succeeds "$count processes" together "$count" --out "$work/together-$count"
  same "the bits of $count processes are those of one" one "together-$count"
done
# A model whose host does not wait for the GPU before the end of an update, so that exchanges begin while launches run.
plain=$work/plain
sed -e 's/{ "op": "boundaries".*/{ "op": "layer" },/' -e '/"op": "shift"/d' -e 's/{ "op": "add", "with": "x" }, //' -e 's/"width": 16/"width": 32/' \
  "$work/words.json" > "$plain.json"
succeeds "compile a model without segments" "$sluice" compile "$plain.json" --target cpu-avx2,sm_80 -o "$plain.sla"
export FAKE_CUDA_KERNELS=$plain.sla
arguments[1]=$plain.sla
"$sluice" inspect "$plain.sla" --extract "$plain" > /dev/null 2>&1
holds "it has several buckets, most of them before the last launches" \
  'len(c := [x for x in f[0]["entries"]["gradient"] if "collective" in x]) > 3 and len([x for x in f[0]["entries"]["gradient"][-len(c):] if "collective" in x]) < 3' \
  "$plain/plan.json"
succeeds "one process without segments" "$sluice" "${arguments[@]}" --device cuda --out "$plain-one"
# The fakes run each stream as late as they may. With FAKE_CUDA_EAGER launches run as early, so they overtake transfers for which they do not wait.
for early in 0 1; do
  succeeds "two processes without segments, $early" env FAKE_CUDA_EAGER=$early mpirun --oversubscribe -n 2 "$sluice" "${arguments[@]}" \
    --device cuda --out "$plain-$early"
  same "the bits do not depend on when streams run, $early" plain-one "plain-$early"
done
holds "reports the time of exchanges" 'all("exchange_ms" in m for m in f[0][1:])' "$plain-0/metrics.jsonl"
export FAKE_NCCL_FOLDER=$work/disturbed
mkdir "$FAKE_NCCL_FOLDER"
# Errors of the runtime that these runs must find.
# finds NAME VARIABLE...: other weights than in one process or on the other rank, or a fake ends the process
finds() {
  local run=$work/find-$1 status=0
  mpirun --oversubscribe -n 2 env "${@:2}" "$sluice" "${arguments[@]}" --device cuda --wait-limit 20 --out "$run" > "$work/out" 2>&1 || status=$?
  if ((status == 0)) && ! cmp -s "$run/checkpoints/3/weights.safetensors" "$plain-one/checkpoints/3/weights.safetensors"; then
    pass "$1"
  elif ((status != 0)) && grep -qE 'expected the weights of rank 0|^fake NCCL: ' "$work/out"; then
    pass "$1"
  else
    fail "$1" "status $status; $(cat "$work/out")"
  fi
}
finds "launches that do not wait for transfers" FAKE_CUDA_EAGER=1 FAKE_CUDA_FORGET=wait
finds "events recorded before their launches" FAKE_CUDA_FORGET=mark
finds "ranks with another order" FAKE_NCCL_SWAP=1
# Rank 1 fails after all have agreed to exchange, with a limit that the test does not wait for.
SECONDS=0
exits 1 "a rank that fails in an exchange" mpirun --oversubscribe -n 1 "$sluice" "${arguments[@]}" --device cuda --wait-limit 300 --out "$plain-fail" : \
  -n 1 env FAKE_CUDA_FAIL=cuMemcpyDtoDAsync_v2 "$sluice" "${arguments[@]}" --device cuda --wait-limit 300 --out "$plain-fail"
cat "$work/out" "$work/err" > "$work/two"
succeeds "ends the others with its message" grep -q 'rank 1: .*copy gradients' "$work/two"
holds "before the limit" 'f[0] < 200' <(echo "$SECONDS")
# The messages of rank 1 are lost in the middle of step 2: the run keeps the weights of step 1.
lost=$plain-lost
exits 1 "a rank that is lost in an exchange" env FAKE_NCCL_LOSE=1:40 mpirun --oversubscribe -n 2 "$sluice" "${arguments[@]}" --device cuda \
  --wait-limit 2 --out "$lost"
cat "$work/out" "$work/err" > "$work/two"
succeeds "names the ranks" grep -qF 'the GPUs of rank 0 and rank 1 have not finished to exchange gradients for 2 s' "$work/two"
succeeds "the run continues" mpirun --oversubscribe -n 2 "$sluice" train --resume "$lost"
same "with the weights of the step before" plain-one plain-lost
arguments[1]=$work/words.sla
export FAKE_CUDA_KERNELS=$work/words.sla FAKE_NCCL_FOLDER=$work/messages
succeeds "a run continues on CPUs" mpirun --oversubscribe -n 2 "$sluice" train --resume "$work/together-2" --device cpu --threads 1 --steps 4
holds "no message is left" 'f[0] == []' <(cd "$work/messages" && python3 -c 'import glob, json; print(json.dumps([p for p in glob.glob("*-*-*-*-*")]))')

# gpu-check.sh on a machine with two GPUs, and on one.
bundle=$work/bundle
mkdir "$bundle" "$work/bin"
sed 's/"accumulate": 6/"accumulate": 2/' "$work/words.json" > "$work/pair.json" # as gpu-check sets it: the fake has this artifact's kernels
succeeds "compile for gpu-check" "$sluice" compile "$work/pair.json" --target cpu-avx2,sm_80 -o "$bundle/pair.sla"
export FAKE_CUDA_KERNELS=$bundle/pair.sla
cp "$root/scripts/gpu-check.sh" "$root/build/bin/sluice-gpu-check" "$bundle"
echo '{"checks": [{"artifact": "pair.sla"}], "about": "a text for training, in two processes with a GPU each"}' > "$bundle/bundle.json"
printf '#!/bin/sh\necho GPU 0\necho GPU 1\n' > "$work/bin/nvidia-smi"
chmod +x "$work/bin/nvidia-smi"
ln -s "$sluice" "$work/bin/sluice"
succeeds "gpu-check on two GPUs" env PATH="$work/bin:$PATH" "$bundle/gpu-check.sh" --exchange "$work/results"
cp "$work/out" "$work/two"
succeeds "trains with the bits of one process" grep -q 'training by 2 processes: the bits of one' "$work/two"
holds "the GPUs exchange memory" 'all(x["wrong"] == 0 and x["ranks"] == n and x["bytes"] > 9999 for x, n in zip(f, (1, 2, 2)))' \
  "$work"/results/exchange-{1-0,2-0,2-1}.json
printf '#!/bin/sh\necho GPU 0\n' > "$work/bin/nvidia-smi"
succeeds "gpu-check on one GPU" env PATH="$work/bin:$PATH" "$bundle/gpu-check.sh" --exchange "$work/results"
cp "$work/out" "$work/two"
succeeds "reports the check that is skipped" grep -qF '2 processes: not checked: expected 2 GPUs, found 1' "$work/two"
exits 1 "memory that is wrong" env PATH="$work/bin:$PATH" FAKE_NCCL_FLIP=1 "$bundle/gpu-check.sh" --exchange "$work/results"
export FAKE_CUDA_KERNELS=$work/words.sla

# rejects NAME STATUS TEXT COMMAND...: no run is left
rejects() {
  exits "$2" "$1" "${@:4}"
  if ! grep -qF -- "$3" "$work/err" "$work/out" || [[ -e $work/none/latest ]]; then
    fail "$1: message" "$(cat "$work/err" "$work/out")"
  fi
}
rejects "no NCCL" 2 'install NCCL 2.18 or later' env SLUICE_NCCL="$work/none.so" mpirun --oversubscribe -n 2 \
  "$sluice" "${arguments[@]}" --device cuda --out "$work/none"
rejects "an old NCCL" 2 'expected NCCL 2.18 or later, found 2.17.1' env FAKE_NCCL_VERSION=21701 mpirun --oversubscribe -n 2 \
  "$sluice" "${arguments[@]}" --device cuda --out "$work/none"
rejects "another library" 2 'found a library without ncclGetVersion' env SLUICE_NCCL="$SLUICE_CUDA_DRIVER" mpirun --oversubscribe -n 2 \
  "$sluice" "${arguments[@]}" --device cuda --out "$work/none"
rejects "too few GPUs" 2 'expected a GPU for each of the 2 processes on this machine, found 1' env FAKE_CUDA_COUNT=1 \
  mpirun --oversubscribe -n 2 "$sluice" "${arguments[@]}" --device cuda --out "$work/none"
rejects "two devices" 2 'rank 1: expected the --device of rank 0, cuda, found cpu' mpirun --oversubscribe \
  -n 1 "$sluice" "${arguments[@]}" --device cuda --out "$work/none" : -n 1 "$sluice" "${arguments[@]}" --device cpu --out "$work/none"
rejects "a lost rank" 1 'the GPUs of rank 0 and rank 1 have not finished to join the GPUs for 2 s' env FAKE_NCCL_SILENT=1 \
  mpirun --oversubscribe -n 2 "$sluice" "${arguments[@]}" --device cuda --wait-limit 2 --out "$work/none"
rejects "a failure on the GPUs" 1 'NCCL failed to exchange gradients: remote process exited' env FAKE_NCCL_FAIL=async \
  mpirun --oversubscribe -n 2 "$sluice" "${arguments[@]}" --device cuda --wait-limit 20 --out "$work/none"

finish

#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Training and evaluation by 2, 3 and 4 processes under mpirun: the bits of one process, resuming with other numbers of processes,
# rejected input, and processes that are killed, stopped, interrupted, or run out of disk.
# shellcheck disable=SC2317 # succeeds and exits call these functions
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # otherwise Open MPI rejects root

write_text "$work/text" 6000 1
"$root/test/e2e/support/uneven_lines.py" "$work"

# write_spec NAME BATCH ACCUMULATE CONTEXT KEYS STAGES
write_spec() {
  cat > "$work/$1.json" << SPEC
{ "sluice": 1, "vocabulary": 256, "context": $4, "batch": $2, "width": 16, "seed": 3,
  "defaults": { "heads": 2, "feed_forward": 20, "dropout": 0.2, "attention_dropout": 0.2 }, $5
  "stages": [ $6 ],
  "training": { "accumulate": $3, "learning_rate": 0.01, "clip": 0.5,
                "schedule": { "kind": "constant", "warmup": 0, "steps": 4 } } }
SPEC
  succeeds "compile $1" "$sluice" compile "$work/$1.json" -o "$work/$1.sla"
}
train() { "$sluice" train "$work/$1.sla" --data "$work/text" --threads 1 --log-every 1 --out "$work/$2" "${@:3}"; }
together() { mpirun --oversubscribe -n "$1" "$sluice" train "${@:2}" --threads 1 --log-every 1; }
join() { together "$1" "$work/$2.sla" --data "$work/text" --out "$work/$3" "${@:4}"; }
# same NAME RUN OTHER STEP: two runs have the same checkpoint and the same metrics.
same() {
  local name=$1 run=$work/$2/checkpoints/$4 other=$work/$3/checkpoints/$4 file
  for file in weights.safetensors optimizer.safetensors; do
    cmp "$run/$file" "$other/$file" > "$work/out" 2>&1 || { fail "$name" "$(cat "$work/out")"; return; }
  done
  holds "$name" '[dict(m, tokens_per_s=0, exchange_ms=0) for m in f[0]] == [dict(m, tokens_per_s=0, exchange_ms=0) for m in f[1]]' \
    "$work/$2/metrics.jsonl" "$work/$3/metrics.jsonl"
}

# close NAME RUN OTHER: the first-step gradients of two runs are equal but for the rounding of sums.
close() { succeeds "$1" "$root/test/e2e/support/compare_gradients.py" "$work/$2" "$work/$3" 1e-5; }

# Dropout, drawn bits and ragged segments; 12 batches of a row. The checkpoints of 2, 3 and 4 processes are equal in every byte.
write_spec words 1 12 20 '' '{ "op": "embedding", "dropout": 0.2 }, { "op": "layer", "to": "x" },
  { "op": "boundaries", "name": "words", "predictor": 8, "prior": 0.3 }, { "op": "shorten", "segments": "words" },
  { "op": "shift", "by": 1, "start": "null" }, { "op": "layer" }, { "op": "upsample", "segments": "words", "by": 0 },
  { "op": "add", "with": "x" }, { "op": "head" }'
succeeds "the times of processes" "$sluice" plan-scale "$work/words.sla" --processes 2 --bandwidth 1GB/s --latency 5us --flops 1Gflop/s --json
cp "$work/out" "$work/scale.json"
holds "gradients are exchanged in several buckets" 'len(f[0]["buckets"]) > 3 and f[0]["overlap"] == "full"' "$work/scale.json"
succeeds "one process" train words one --steps 4
for count in 2 3 4; do
  succeeds "$count processes" join "$count" words "words-$count" --steps 4
  same "the bits of $count processes are those of one" one "words-$count" 4
  succeeds "and so is the state" cmp "$work/one/checkpoints/4/state.json" "$work/words-$count/checkpoints/4/state.json"
done

# Padded lines of an input; a factor that each step draws, and tied weights.
write_spec lines 4 3 12 '"inputs": { "source": { "context": 6 } },' '{ "op": "embedding", "to": "text" },
  { "op": "embedding", "input": "source" }, { "op": "layer", "mask": "bidirectional" }, { "op": "norm", "to": "memory" },
  { "op": "layer", "from": "text" }, { "op": "layer", "over": "memory" }, { "op": "head" }'
lines=("$work/lines.sla" --data "$work/lines" --input "source=$work/source" --log-every 1 --threads 1 --save-every 1)
succeeds "one process of lines" "$sluice" train "${lines[@]}" --steps 3 --keep 3 --out "$work/lines-one"
succeeds "3 processes of lines" mpirun --oversubscribe -n 3 "$sluice" train "${lines[@]}" --steps 3 --out "$work/lines-3"
same "the bits of lines" lines-one lines-3 3
succeeds "4 processes divide lines" mpirun --oversubscribe -n 4 "$sluice" train "${lines[@]}" --steps 1 --out "$work/lines-4"
close "the gradients of undivided lines" lines-one lines-4
write_spec drawn 6 2 21 '' '{ "op": "embedding" }, { "op": "hourglass", "hierarchy": "1@1 1@{2,3} 1@1" }, { "op": "head", "tied": true }'
succeeds "one process of drawn" train drawn drawn-one --steps 3 --save-every 1 --keep 3
succeeds "2 processes of drawn" join 2 drawn drawn-2 --steps 3
same "the bits of drawn" drawn-one drawn-2 3
succeeds "3 processes divide drawn" join 3 drawn drawn-3 --steps 1
close "the gradients of undivided drawn" drawn-one drawn-3

# One batch of 12 rows is divided: the bits of one process with three batches of 4, and the spec of the undivided batch. Its
# segments have many lengths, which the text decides, and not the rounding of a sum.
stages='{ "op": "embedding" }, { "op": "layer", "to": "x" },
  { "op": "boundaries", "name": "words", "rule": "whitespace", "capacity": 0.8 }, { "op": "shorten", "segments": "words" },
  { "op": "shift", "by": 1, "start": "null" }, { "op": "layer" }, { "op": "upsample", "segments": "words", "by": 0 },
  { "op": "add", "with": "x" }, { "op": "norm" }, { "op": "head" }'
write_spec whole 12 1 21 '' "$stages"
write_spec parts 4 3 21 '' "$stages"
succeeds "the undivided batch" train whole whole-one --steps 1
succeeds "three batches" train parts parts-one --steps 3
succeeds "3 processes divide a batch" join 3 whole whole-3 --steps 3 --save-every 1 --keep 3
same "the bits of three batches" parts-one whole-3 3
succeeds "the run has the artifact's spec" cmp "$work/whole.json" "$work/whole-3/spec.json"
close "the gradients of the undivided batch" whole-one whole-3

# One batch of 12 has a gradient that is not finite, though its loss is, or one whose square is not finite.
write_spec large 1 12 20 '' '{ "op": "embedding" }, { "op": "project" }, { "op": "head" }'
tr Z z < "$work/text" | head -c 400 > "$work/with-z"
printf Z | dd of="$work/with-z" bs=1 seek=125 conv=notrunc status=none
large=("$work/large.sla" --data "$work/with-z" --steps)
succeeds "the first weights" "$sluice" train "${large[@]}" 0 --out "$work/first-weights"
for factor in 1e19 1; do
  succeeds "large weights" "$root/test/e2e/support/large_weights.py" "$work/first-weights/checkpoints/0/weights.safetensors" "$work/large-$factor" "$factor"
done
# names TEXT: after the text, the message names the batch, counted from 1, and the one of "count" processes that computed it.
names() { grep -qE "the loss is [0-9.e+]+, the gradient's norm inf, .*$1 rank $(((batch - 1) % count)) \(batch $batch of 12\);" "$work/message"; }
batch=
for count in 2 3 4; do
  exits 1 "$count processes with a large gradient" together "$count" "${large[@]}" 2 --weights "$work/large-1e19" --out "$work/large-run"
  cp "$work/err" "$work/message"
  batch=${batch:-$(sed -nE 's/.*\(batch ([0-9]+) of 12\).*/\1/p' "$work/message")}
  succeeds "the rank and batch of the gradient among $count" names 'the gradient is not finite on'
done
exits 1 "a large norm" together 3 "${large[@]}" 2 --weights "$work/large-1" --out "$work/large-run"
cp "$work/err" "$work/message"
count=3
succeeds "the rank and batch of the largest gradient" names 'the gradient of each batch is finite, with a largest value of [0-9.e+]+ on'

# A run continues with any number of processes.
succeeds "a run of 2 processes" join 2 words resumed --steps 2
succeeds "continues with 3" together 3 --resume "$work/resumed" --steps 3
succeeds "and with one" "$sluice" train --resume "$work/resumed" --steps 4
same "with the bits of one" one resumed 4
succeeds "a run that is done" together 2 --resume "$work/resumed"

# A sharded state of the optimizer: the bits of one process, also where some processes have no row of the weights, with compute copies of the
# weights, and in a run that continues with and without it.
for count in 2 3 12; do
  succeeds "$count processes with shards" join "$count" words "shards-$count" --steps 4 --shard optimizer
  same "the bits of $count processes with shards are those of one" one "shards-$count" 4
done
write_spec copies 3 2 21 '"precision": { "compute": "bf16" },' "$stages"
succeeds "one process of copies" train copies copies-one --steps 3 --save-every 1
succeeds "2 processes with shards of copies" join 2 copies copies-2 --steps 3 --save-every 1 --shard optimizer
same "the bits of copies with shards" copies-one copies-2 3
succeeds "the state of step 0 with shards" join 3 words mixed --steps 0 --shard optimizer
succeeds "continues with shards" together 3 --resume "$work/mixed" --steps 1
succeeds "and without shards" together 2 --resume "$work/mixed" --steps 2 --shard none
succeeds "and with other shards" together 2 --resume "$work/mixed" --steps 3 --shard optimizer
succeeds "and with one process" "$sluice" train --resume "$work/mixed" --steps 4
if grep -q 'note: --shard optimizer has no effect on one process' "$work/err"; then pass "which is reported"; else fail "which is reported" "$(cat "$work/err")"; fi
same "with the bits of one" one mixed 4

# eval and logits print and write the bytes of one process.
# alike NAME COUNT COMMAND...: OUT in the command is a file that it writes.
alike() {
  local name=$1 count=$2
  shift 2
  rm -f "$work/by-one.npy" "$work/by-all.npy"
  succeeds "$name by one process" "$sluice" "${@/#OUT/$work/by-one.npy}" --threads 1
  cp "$work/out" "$work/by-one"
  succeeds "$name by $count" mpirun --oversubscribe -n "$count" "$sluice" "${@/#OUT/$work/by-all.npy}" --threads 1
  cp "$work/out" "$work/by-all"
  succeeds "$name prints the same" cmp "$work/by-one" "$work/by-all"
  if [[ " $* " == *" OUT "* ]]; then
    succeeds "$name writes the same" cmp "$work/by-one.npy" "$work/by-all.npy"
  else
    succeeds "$name prints something" test -s "$work/by-one"
  fi
}
words=("$work/words.sla" --weights "$work/one")
lines_of_text=("$work/lines.sla" --weights "$work/lines-one" --data "$work/lines" --input "source=$work/source")
texts=("$work/text" "$work/source" "$work/lines")
alike "eval of segments" 3 eval "${words[@]}" --data "${texts[@]}" --json
alike "the losses of a factor" 2 eval "$work/drawn.sla" --weights "$work/drawn-one" --data "${texts[@]}" --tokens 6100 --factor 3 --per-token OUT
alike "eval with each factor" 4 eval "$work/drawn.sla" --weights "$work/drawn-one" --data "${texts[@]}" --json
alike "eval of lines" 3 eval "${lines_of_text[@]}" --tokens 70 --json
succeeds "compile a contrast" "$sluice" compile "$root/models/tiny/contrast.json" -o "$work/contrast.sla"
succeeds "train it" train contrast contrast-one --steps 1
alike "eval of a contrast" 3 eval "$work/contrast.sla" --weights "$work/contrast-one" --data "${texts[@]}"
alike "logits" 3 logits "${words[@]}" --data "$work/source" -o OUT
alike "logits of lines" 2 logits "${lines_of_text[@]}" -o OUT

# With all ranks' messages every line is whole, and begins with one rank.
succeeds "messages of all ranks" join 4 words logged --steps 4 --log-ranks all
cp "$work/err" "$work/lines-of-ranks"
# shellcheck disable=SC2016 # bash -c expands
succeeds "each line has its rank" bash -c '! grep -vE "^(sluice: )?rank [0-3]: [^ ]" "$1" && ! grep -E "rank .*rank [0-3]: " "$1"' bash "$work/lines-of-ranks"
succeeds "every rank has lines" test "$(grep -oE '^(sluice: )?rank [0-3]: ' "$work/lines-of-ranks" | sed 's/sluice: //' | sort -u | wc -l)" = 4

# Rejected input names the remedy, and starts no training.
# rejects NAME STATUS TEXT COMMAND...
rejects() {
  exits "$2" "$1" "${@:4}"
  if ! grep -qF -- "$3" "$work/err" "$work/out" || [[ -e $work/none ]]; then
    fail "$1: message" "$(cat "$work/err" "$work/out")"
  fi
}
rejects "5 processes" 2 'expected a number of processes that divides the rows of an update' join 5 words none --steps 1
rejects "no library" 2 'install Open MPI' env SLUICE_MPI="$work/none.so" mpirun --oversubscribe -n 2 \
  "$sluice" train "$work/words.sla" --data "$work/text" --out "$work/none"
succeeds "an MPI that leaves little memory" clang++-22 -std=c++20 -shared -fPIC -I "$root/runtime/Processes" \
  "$root/test/e2e/support/scarce_mpi.cpp" -o "$work/scarce.so"
rejects "little memory" 1 'rank 1: out of memory: expected 16 MB of address space after the start of MPI, found less' \
  env SLUICE_MPI="$work/scarce.so" REAL_MPI="$root/build/lib/libsluice_mpi.so" mpirun --oversubscribe -n 2 \
  "$sluice" train "$work/words.sla" --data "$work/text" --out "$work/none"
rejects "another MPI" 2 'expected Open MPI, found another MPI' env PMI_SIZE=2 PMI_RANK=0 \
  "$sluice" train "$work/words.sla" --data "$work/text" --out "$work/none"
rejects "Slurm without its PMI" 2 'expected MPI to find them, found that it has 1' env SLURM_NTASKS=2 SLURM_PROCID=0 \
  "$sluice" train "$work/words.sla" --data "$work/text" --out "$work/none"
rejects "generate by 2 processes" 2 'sluice generate: expected one process, found 2' mpirun --oversubscribe -n 2 \
  "$sluice" generate "${words[@]}" --prompt a
rejects "a metric" 2 'expected one process with --metric, found 2' mpirun --oversubscribe -n 2 \
  "$sluice" eval "$work/lines.sla" --weights "$work/lines-one" --input "source=$work/source" --metric bleu --reference "$work/lines"
rejects "eval of a stream" 2 'expected files, which all processes can read' mpirun --oversubscribe -n 2 "$sluice" eval "${words[@]}" --data -
rejects "other weights" 2 'rank 1: expected the weights (SHA-256) of rank 0' mpirun --oversubscribe -n 1 \
  "$sluice" eval "${words[@]}" --data "$work/text" : -n 1 "$sluice" eval "$work/words.sla" --weights "$work/resumed/checkpoints/2" --data "$work/text"
rejects "other flags" 2 'rank 1: expected the flags of rank 0' mpirun --oversubscribe -n 1 \
  "$sluice" eval "${words[@]}" --data "$work/text" : -n 1 "$sluice" eval "${words[@]}" --data "$work/text" --stride 3
# An error on one rank ends all, with one message.
mpirun --oversubscribe -n 2 "$sluice" eval "${words[@]}" --data "$work/text" : -n 1 "$sluice" eval "${words[@]}" --data "$work/no-text" \
  > "$work/out" 2> "$work/err" && fail "an error on rank 2" "no error"
succeeds "an error on rank 2 is the only message" test "$(grep -c 'sluice: ' "$work/err") $(grep -c 'error: rank 2: .*no such file' "$work/err") $(wc -c < "$work/out")" = "1 1 0"
rejects "a stream" 2 'expected files, which all processes can read' together 2 "$work/words.sla" --data - --out "$work/none"
rejects "a drawn seed" 2 'each process would draw another seed' join 2 words none --seed random
rejects "a GPU" 2 'expected --device cpu or cuda for several processes' join 2 words none --device emulator
rejects "shards on GPUs" 2 'expected --device cpu with --shard optimizer, found --device cuda' join 2 words none --device cuda --shard optimizer
rejects "data that is missing" 2 'no such file' together 2 "$work/words.sla" --data "$work/no-text" --out "$work/none"
# both NAME TEXT OURS THEIRS: rank 1 gets other arguments than rank 0, words without spaces
both() {
  # shellcheck disable=SC2086 # words
  rejects "$1" 2 "$2" mpirun --oversubscribe -n 1 "$sluice" train $3 : -n 1 "$sluice" train $4
}
rest="--out $work/none --threads 1"
both "two artifacts" 'rank 1: expected the artifact (SHA-256) of rank 0' \
  "$work/drawn.sla --data $work/text $rest" "$work/words.sla --data $work/text $rest"
both "shards on one" 'rank 1: expected the --shard of rank 0, none, found optimizer' \
  "$work/drawn.sla --data $work/text $rest" "$work/drawn.sla --data $work/text --shard optimizer $rest"
both "two texts" 'rank 1: expected the data (SHA-256) of rank 0' \
  "$work/drawn.sla --data $work/text $rest" "$work/drawn.sla --data $work/lines $rest"
if grep -q avx512f /proc/cpuinfo; then
  succeeds "compile for two instruction sets" "$sluice" compile "$work/parts.json" --target cpu -o "$work/two.sla"
  rest="$work/two.sla --data $work/text $rest --cpu-target"
  both "two instruction sets" 'rank 1: expected the instruction set of rank 0, cpu-avx2, found cpu-avx512' "$rest cpu-avx2" "$rest cpu-avx512"
else
  echo "no AVX-512: two instruction sets are not tested"
fi

# Faults: each run of 3 processes ends with a message, and resumes on 3 and on 2 with the bits of one process.
python3 - "$work" "$sluice" << 'PYTHON' || fail "faults" "see above"
import filecmp, os, shlex, shutil, signal, subprocess, sys, time
work, sluice = sys.argv[1:]
failures = 0
def train(*words, steps, count=3, launcher=()):
    ranks = [sluice, "train", *words, "--threads", "1", "--steps", str(steps), "--log-every", "1"]
    return subprocess.Popen(["mpirun", "--oversubscribe", *launcher, "-n", str(count), *ranks],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
def find(run, rank):
    """Returns the process of a rank."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline") as command, open(f"/proc/{name}/environ") as environment:
                if command.read().startswith(f"{sluice}\0train\0") and f"OMPI_COMM_WORLD_RANK={rank}\0" in environment.read() \
                        and run in open(f"/proc/{name}/cmdline").read():
                    return int(name)
        except OSError:
            pass
    raise SystemExit(f"no rank {rank} of {run}")
def check(name, holds, output):
    global failures
    print("ok" if holds else "FAIL", name)
    if not holds:
        failures += 1
        print(output)
def wait_for_step(run, process):
    while process.poll() is None and not (os.path.exists(run + "/metrics.jsonl") and open(run + "/metrics.jsonl").read().count("\n") > 4):
        time.sleep(0.02)
def equals(run, other, step):
    return all(filecmp.cmp(f"{run}/checkpoints/{step}/{name}", f"{other}/checkpoints/{step}/{name}", shallow=False)
               for name in ("weights.safetensors", "optimizer.safetensors"))
# fault: name, rank (None: mpirun), signal, exit status, texts of which one appears, flags of mpirun and of sluice
faults = (("killed", 1, signal.SIGKILL, (137,), ("process rank 1",), (), ()),
          ("stopped", 2, signal.SIGSTOP, (1,), ("rank 2 has not answered rank 0 for 8 s", "ranks 1, 2 have not answered rank 0 for 8 s"),
           (), ("--wait-limit", "8")),
          ("interrupted", 1, signal.SIGINT, (130,), ("interrupted: saved a checkpoint after step",), (), ()),
          ("interrupted with shards", 2, signal.SIGINT, (130,), ("interrupted: saved a checkpoint after step",), (), ("--shard", "optimizer")),
          ("stopped with shards", 1, signal.SIGSTOP, (1,), ("later steps are lost, as each process has a part of the optimizer's state",),
           (), ("--wait-limit", "8", "--shard", "optimizer")),
          ("ended", None, signal.SIGINT, (1, 130, 143), ("interrupted: saved a checkpoint after step",),
           ("--mca", "odls_base_sigkill_timeout", "3"), ()))
for name, rank, number, statuses, texts, launcher, flags in faults:
    run = f"{work}/{name}"
    process = train(f"{work}/words.sla", "--data", f"{work}/text", "--out", run, "--save-every", "3", *flags, steps=1000000, launcher=launcher)
    wait_for_step(run, process)
    os.kill(process.pid if rank is None else find(run, rank), number)
    try:
        output = process.communicate(timeout=120)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        output = "still running after 120 s"
    check(f"{name}: status and message", process.returncode in statuses and any(text in output for text in texts), (process.returncode, output))
    if "interrupted: " in output:
        check(f"{name}: the command that continues", f"continue with: mpirun -n 3 sluice train --resume {shlex.quote(run)}\n" in output, output)
    step = int(open(run + "/latest").read()) + 2
    shutil.copytree(run, run + "-2")
    shutil.copytree(run, run + "-1")
    subprocess.run([sluice, "train", "--resume", run + "-1", "--threads", "1", "--steps", str(step)], check=True, capture_output=True)
    for count, again in ((3, run), (2, run + "-2")):
        if count == 3 or name == "killed":
            process = train("--resume", again, steps=step, count=count)
            output = process.communicate()[0]
            check(f"{name}: resumes on {count}", process.returncode == 0 and equals(again, run + "-1", step), output)
# The run that was killed has the bits of a run that was not.
subprocess.run([sluice, "train", f"{work}/words.sla", "--data", f"{work}/text", "--out", f"{work}/whole-run", "--threads", "1",
                "--steps", open(f"{work}/killed/latest").read().strip()], check=True, capture_output=True)
step = int(open(f"{work}/killed/latest").read())
check("killed: the bits of an uninterrupted training", equals(f"{work}/killed", f"{work}/whole-run", step), step)
# A full disk, as a limit on the size of rank 0's files: the weights have more bytes than the metrics.
run = f"{work}/full"
command = [sluice, "train", f"{work}/words.sla", "--data", f"{work}/text", "--out", run, "--threads", "1", "--steps", "60", "--save-every", "3"]
process = subprocess.run(["mpirun", "--oversubscribe", "-n", "1", "bash", "-c", 'ulimit -f 24; exec "$@"', "bash", *command, ":", "-n", "2", *command],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
check("a full disk", process.returncode == 1 and "sluice: error: " in process.stdout and not os.path.exists(run + "/latest"), process.stdout)
# Numbers that are not finite on all ranks.
run = f"{work}/infinite"
process = train(f"{work}/words.sla", "--data", f"{work}/text", "--out", run, "--set", "training.learning_rate=1e30", steps=60)
output = process.communicate()[0]
check("numbers that are not finite", process.returncode == 1 and output.count("expected finite numbers") == 1, (process.returncode, output))
sys.exit(failures > 0)
PYTHON

finish

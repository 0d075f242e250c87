#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Generation for users: the same text with and without a cache, in every batch and after a session; stop texts;
# rejected flags.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

# model NAME SPEC: an artifact and its initial weights.
model() {
  succeeds "$1: compile" "$sluice" compile "$2" -o "$work/$1.sla"
  succeeds "$1: weights" "$sluice" train "$work/$1.sla" --steps 0 --out "$work/$1"
}
# write FILE NAME FLAGS...: what `generate --no-echo` prints.
write() {
  local file=$work/$1 name=$2
  shift 2
  "$sluice" generate "$work/$name.sla" --weights "$work/$name" --no-echo "$@" > "$file" 2> "$work/err" ||
    fail "generate $*" "$(tail -n 3 "$work/err")"
}
same() { succeeds "$1" cmp "$work/$2" "$work/$3"; }
# refuses NAME PATTERN FLAGS...: exit status 2 and a message.
refuses() {
  local name=$1 pattern=$2
  shift 2
  exits 2 "$name" "$sluice" generate "$work/hourglass.sla" --weights "$work/hourglass" "$@"
  cp "$work/err" "$work/said"
  succeeds "$name: the message" grep -qE -- "$pattern" "$work/said"
}

for name in vanilla hourglass; do
  model "$name" "$root/models/tiny/$name.json"
done
# The last stores nothing from one token to the next.
for name in factors-2-3-7-nested hourglass-windows embedding-alone; do
  model "$name" "$root/test/causality/causal/$name.json"
done
for name in vanilla hourglass factors-2-3-7-nested hourglass-windows embedding-alone; do
  write cached "$name" -p $'\001\005\003' -n 150 -t 0
  write recomputed "$name" -p $'\001\005\003' -n 150 -t 0 --no-cache
  succeeds "$name: 150 bytes" test "$(wc -c < "$work/cached")" -eq 150
  same "$name: the same greedy text without a cache, past the context" cached recomputed
done

# The other families, in few models, past the context; a session of each, saved within a group.
# greedy NAME STAGES: the same text with and without a cache; the output of the first is in $work/told.
greedy() {
  cat > "$work/$1.json" << JSON
{ "sluice": 1, "vocabulary": 256, "context": 24, "batch": 1, "width": 12,
  "defaults": { "heads": 4, "key_value_heads": 2, "feed_forward": 8 },
  "stages": [ { "op": "embedding" }, $2, { "op": "head" } ] }
JSON
  succeeds "$1: compile" "$sluice" compile "$work/$1.json" -o "$work/$1.sla" --target cpu-avx2 --generation-rows 1
  succeeds "$1: weights" "$sluice" train "$work/$1.sla" --steps 0 --out "$work/$1"
  write cached "$1" -p abcde -n 45 -t 0
  cp "$work/err" "$work/told"
  write recomputed "$1" -p abcde -n 45 -t 0 --no-cache
  succeeds "$1: 45 bytes" test "$(wc -c < "$work/cached")" -eq 45
  same "$1: the same greedy text without a cache, past the context" cached recomputed
}
# family NAME STAGES
family() {
  greedy "$@"
  write begin "$1" -p abcde -n 12 -t 0 --threads 2 --save-session "$work/family"
  write rest "$1" --session "$work/family" -n 33 --threads 1
  cat "$work/begin" "$work/rest" > "$work/joined"
  same "$1: and with a session" cached joined
}
family "bottom-up and retina" '{ "op": "bottom_up", "hierarchy": "0@1 0@2 0@6", "shorten_window": 4 },
  { "op": "layer", "scales": [ { "factor": 1, "tokens": [0, 3] }, { "factor": 4, "tokens": [3, 15] } ] }'
family "attention resampling and XL" '{ "op": "hourglass", "hierarchy": "0@1 1@3 0@1", "shorten": "attention",
  "upsample": "attention", "relative": "xl" }'
family "convolution, maxima and groups side by side" '{ "op": "shorten", "factor": 1, "window": 3, "method": "convolution", "to": "x" },
  { "op": "shift", "by": 2 }, { "op": "shorten", "factor": 3, "window": 5, "method": "convolution" }, { "op": "norm" },
  { "op": "upsample", "factor": 3, "window": 6, "method": "transposed" }, { "op": "add", "with": "x", "to": "y" },
  { "op": "shift", "by": 1 }, { "op": "shorten", "factor": 2, "method": "max" }, { "op": "layer" },
  { "op": "upsample", "factor": 2 }, { "op": "add", "with": "y", "to": "z" },
  { "op": "shorten", "factor": 4, "method": "concatenate" }, { "op": "norm" }, { "op": "upsample", "factor": 4, "method": "split" },
  { "op": "shift", "by": 3, "start": "null" }, { "op": "add", "with": "z" }'

family "hashes" '{ "op": "layer", "key_value_heads": 4, "lsh": { "buckets": 2, "chunk": 4 } }'
greedy "bursts" '{ "op": "shorten", "factor": 2 }, { "op": "upsample", "factor": 2 },
  { "op": "layer", "key_value_heads": 4, "lsh": { "buckets": 2, "chunk": 4 } }, { "op": "shift", "by": 1 }'
succeeds "bursts: a note says that each token recomputes the text" grep -q 'no incremental step, so that each token recomputes all' "$work/told"
exits 2 "bursts: a session is rejected" "$sluice" generate "$work/bursts.sla" -w "$work/bursts" -p a -n 1 --save-session "$work/new"
cp "$work/err" "$work/said"
succeeds "bursts: the message" grep -q 'expected an artifact that generates step by step' "$work/said"

# Batches: more prompts than rows, of different lengths.
python3 -c 'for i in range(19): print("ab" * (1 + i * 7 % 40))' > "$work/prompts"
write together hourglass --prompt-file "$work/prompts" -n 20 --seed 4 --json
cp "$work/together" "$work/together.jsonl"
holds "19 answers in the order of the prompts" \
  'len(f[0]) == 19 and all(a["prompt"] == "ab" * (1 + i * 7 % 40) and a["tokens"] == 20 for i, a in enumerate(f[0]))' \
  "$work/together.jsonl"
: > "$work/alone"
while read -r prompt; do
  write one hourglass -p "$prompt" -n 20 --seed 4 --json
  cat "$work/one" >> "$work/alone"
done < <(head -n 6 "$work/prompts")
head -n 6 "$work/together" > "$work/first"
same "an answer is the same in a batch and alone" first alone

# Samples.
write samples hourglass -p ab -n 20 --seed 4 --num 3 --json
head -n 1 "$work/samples" > "$work/first"
write one hourglass -p ab -n 20 --seed 4 --json
same "sample 0 is the text without --num" first one
cp "$work/samples" "$work/samples.jsonl"
holds "samples differ" 'len({a["text"] for a in f[0]}) == 3 == len(f[0])' "$work/samples.jsonl"
"$sluice" generate "$work/hourglass.sla" -w "$work/hourglass" -p ab -n 3 --num 2 > "$work/plain"
succeeds "several answers have headings" grep -qx '==> 2 <==' "$work/plain"
printf ab | "$sluice" generate "$work/hourglass.sla" -w "$work/hourglass" -p - -n 20 --seed 4 --no-echo > "$work/piped"
write one hourglass -p ab -n 20 --seed 4
same "a prompt from the standard input" piped one

# Sessions: threads, appended text, damage.
write whole hourglass -p ab -n 120 --seed 7 --top-k 90 --min-p 0.001 --typical 0.99 --repetition-penalty 1.1
write begin hourglass -p ab -n 70 --seed 7 --top-k 90 --min-p 0.001 --typical 0.99 --repetition-penalty 1.1 \
  --threads 2 --save-session "$work/session"
write rest hourglass --session "$work/session" -n 50 --threads 1
cat "$work/begin" "$work/rest" > "$work/joined"
same "a session continues as without saving, on other threads" whole joined
write greedy hourglass -p ab -n 10 -t 0 --save-session "$work/short"
write appended hourglass --session "$work/short" -p ' and more' -n 10
text="ab$(cat "$work/greedy") and more"
write direct hourglass -p "$text" -n 10 -t 0 --no-cache
same "a prompt is appended to a session" appended direct
: > "$work/begin" # the job empties it only after its start
"$sluice" generate "$work/hourglass.sla" -w "$work/hourglass" -p ab --no-echo -n 100000000 --seed 7 \
  --save-session "$work/stopped" > "$work/begin" 2> "$work/err" &
job=$!
while (($(wc -c < "$work/begin") < 30)) && kill -0 "$job"; do sleep 0.1; done
kill -TERM "$job"
status=0
wait "$job" || status=$?
succeeds "a text interrupted by a signal: status 143" test "$status" -eq 143
write rest hourglass --session "$work/stopped" -n 50
cat "$work/begin" "$work/rest" > "$work/joined"
write whole hourglass -p ab --seed 7 -n "$(wc -c < "$work/joined")"
same "its session was saved" whole joined
head -c 2000 "$work/session" > "$work/cut"
refuses "a truncated session" 'cut short.*; give a session that this version saved, or begin anew' --session "$work/cut"
python3 - "$work/session" "$work/damaged" << 'PYTHON'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[-100] ^= 1
open(sys.argv[2], "wb").write(data)
PYTHON
refuses "a damaged session" 'damaged; give a session that this version saved' --session "$work/damaged"
refuses "weights as session" 'expected a session' --session "$work/hourglass/checkpoints/0/weights.safetensors"
exits 2 "a session of another model" "$sluice" generate "$work/vanilla.sla" -w "$work/vanilla" --session "$work/session"
cp "$work/err" "$work/said"
succeeds "it says so" grep -q 'of the same artifact' "$work/said"

# Stop texts.
write free hourglass -p ab -n 60 -t 1 --seed 2
stop=$(python3 -c 'import sys; sys.stdout.buffer.write(next(bytes([a, b]) for a, b in zip(*(open(sys.argv[1], "rb").read()[i:] for i in (20, 21))) if 32 < a < 127 and 32 < b < 127))' "$work/free")
write stopped hourglass -p ab -n 60 -t 1 --seed 2 --stop "$stop" --stop 'never to be seen'
succeeds "the text before a stop text" python3 -c 'import sys
free, stopped = (open(path, "rb").read() for path in sys.argv[1:3])
sys.exit(stopped != free[:free.index(sys.argv[3].encode())] or len(stopped) == len(free))' "$work/free" "$work/stopped" "$stop"

# Invalid flags.
refuses "no samples" 'from 1 to' --num 0
refuses "an empty stop text" 'at least one byte' --stop ''
refuses "min-p beyond 1" 'min-p from 0 to 1' --min-p 1.5
refuses "a typical mass of 0" 'typical probability' --typical 0
refuses "a penalty of 0" 'repetition penalty above 0' --repetition-penalty 0
refuses "two kinds of prompts" 'prompt' -p a --prompt-file "$work/prompts"
refuses "a session of several texts" 'one text for a session' --prompt-file "$work/prompts" --save-session "$work/new"
refuses "a session without a cache" 'no-cache' --no-cache --save-session "$work/new"
refuses "a missing prompt file" 'nowhere' --prompt-file "$work/nowhere"
cp "$work/hourglass/checkpoints/0/weights.safetensors" "$work/weights"
for kept in checkpoints/0/weights.safetensors latest; do
  refuses "a session path equal to $kept" 'part of the (run|checkpoint)' -n 1 --save-session "$work/hourglass/$kept"
done
succeeds "which stays" cmp "$work/weights" "$work/hourglass/checkpoints/0/weights.safetensors"
refuses "an infinite temperature" 'finite temperature' -t inf
printf 'a\r\nb\n' | "$sluice" generate "$work/hourglass.sla" -w "$work/hourglass" --prompt-file - -n 1 --json > "$work/lines.jsonl"
holds "prompts from the standard input, with carriage returns" '[a["prompt"] for a in f[0]] == ["a", "b"]' "$work/lines.jsonl"
: > "$work/empty"
refuses "no prompts" 'one prompt a line' --prompt-file "$work/empty"
succeeds "and nothing was written" test ! -e "$work/new"
exits 2 "more rows than the limit" "$sluice" compile "$root/models/tiny/vanilla.json" -o "$work/new" --generation-rows 65

# Given continuations: scored as by evaluation, and equally among others and without a cache.
printf 'abacadabra' > "$work/text"
# score FILE FLAGS...: what `generate --score --json` prints.
score() {
  "$sluice" generate "$work/hourglass.sla" --weights "$work/hourglass" --json "${@:2}" > "$work/$1.jsonl" 2> "$work/err" ||
    fail "generate ${*:2}" "$(tail -n 3 "$work/err")"
}
"$sluice" eval "$work/hourglass.sla" --weights "$work/hourglass" --data "$work/text" --json > "$work/eval.json" 2> "$work/err"
score score -p a --score bacadabra
holds "a score matches eval" \
  'abs(f[0]["nats"] - f[1][0]["nats"]) < 1e-4 and f[1][0]["tokens"] == f[0]["tokens"] == len(f[1][0]["per_token"]) == 9' \
  "$work/eval.json" "$work/score.jsonl"
score scores --prompt-file "$work/prompts" --score b --score bacadabra
score recomputed --prompt-file "$work/prompts" --score b --score bacadabra --no-cache
holds "19 prompts, two continuations each, with and without a cache" \
  'len(f[0]) == len(f[1]) == 38 and all(abs(a["nats"] - b["nats"]) < 1e-4 and a["prompt"] == b["prompt"] for a, b in zip(*f))' \
  "$work/scores.jsonl" "$work/recomputed.jsonl"
score one -p "$(sed -n 3p "$work/prompts")" --score b
sed -n 5p "$work/scores.jsonl" > "$work/first"
same "a score is the same among others and alone" first one.jsonl
refuses "an empty continuation" 'continuation of at least one byte' --score ''
refuses "a score and a temperature" 'with --score, which draws nothing' --score a --temperature 0

# Messages.
"$sluice" inspect "$work/hourglass.sla" --json > "$work/inspect.json"
holds "inspect lists states and rates" \
  '({"name", "shape", "bytes", "scale"} <= set(f[0]["states"][0]) and f[0]["generation"]["rows"] == 16 and
     {l["period"] for l in f[0]["generation"]["launches"]} == {1, 4})' "$work/inspect.json"
holds "and memory by use" 'f[0]["memory"]["by_use"].keys() == {"training", "generation"}' "$work/inspect.json"
"$sluice" inspect "$work/hourglass.sla" > "$work/inspect"
succeeds "inspect prints it as text" grep -q 'every token, [0-9]* every 4th token' "$work/inspect"
"$sluice" bench "$work/hourglass.sla" -n 1 --kernels --by-stage --generate --rows 3 --positions 8-40 --json > "$work/bench.json"
holds "bench measures generation" \
  '(0 < f[0]["fraction_of_bandwidth"] < 1.5 and f[0]["cached_tokens_per_s"] > 0 and
     0 < f[0]["generation_step_ms"]["tenth"] <= f[0]["generation_step_ms"]["median"])' "$work/bench.json"
holds "of the requested rows and positions" \
  '(f[0]["rows"] == 3 and f[0]["positions"] == [8, 40] and
     16 * f[0]["state_bytes"] == 3 * sum(s["bytes"] for s in f[1]["states"]) and
     math.isclose(f[0]["fraction_of_bandwidth"],
       f[0]["step_bytes"] * f[0]["cached_tokens_per_s"] / 3 / 1e9 / f[0]["read_gbytes_per_s"], rel_tol=1e-9))' \
  "$work/bench.json" "$work/inspect.json"
holds "the times of stages add up to those of kernels" \
  'all(math.isclose(sum(s["ms"] for s in f[0][stages]), sum(k["ms"] for k in f[0][kernels]), rel_tol=1e-9) and
       math.isclose(sum(s["share"] for s in f[0][stages]), 1, rel_tol=1e-9) and
       all(math.isclose(s["ms"], s["forward_ms"] + s["backward_ms"] + s["update_ms"], rel_tol=1e-9) for s in f[0][stages])
       for stages, kernels in (("stages", "kernels"), ("step_stages", "step_kernels")))' "$work/bench.json"
succeeds "and the docs name its keys, all of them" python3 - "$root/docs/running.md" "$work/bench.json" << 'PYTHON'
import json, re, sys
section = re.search(r"^## Measuring\n(.*?)^## ", open(sys.argv[1]).read(), re.S | re.M).group(1)
named = {key for row in re.findall(r"^\| (`.*?) \|", section, re.M) for key in re.findall(r"`(\w+)`", row)}
found = set(json.load(open(sys.argv[2])))
if len(named) < 20 or found ^ named != {"factor", "shortening_factor"}:
    sys.exit(f"named and not found: {sorted(named - found)}; found and not named: {sorted(found - named)}")
PYTHON
finish

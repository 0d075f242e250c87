#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Numbers in and out: given weights, initial weights, losses per token, logits, settings of the command line, and the mark
# of an allowed leak.
# shellcheck disable=SC2317 # succeeds and exits call these functions
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

write_text "$work/text.txt" 20000 1
write_text "$work/held-out.txt" 700 2
cat > "$work/spec.json" << 'SPEC'
{
  "sluice": 1, "vocabulary": 256, "context": 32, "batch": 2, "width": 32, "defaults": { "heads": 4, "rotary": true },
  "stages": [ { "op": "embedding" }, { "op": "hourglass", "hierarchy": "1@1 1@4 1@1" }, { "op": "head" } ],
  "training": { "learning_rate": 1e-3, "schedule": { "warmup": 4, "steps": 20 } }
}
SPEC
targets=cpu-avx2
compile() { "$sluice" compile "$work/spec.json" -t "$targets" "$@"; }
train() { "$sluice" train "$@" --cpu-target "$targets" --data "$work/text.txt"; }
reports() {
  if grep -qE -- "$2" "$work/err"; then pass "$1"; else fail "$1" "expected '$2' in:" "$(tail -n 5 "$work/err")"; fi
}
silent() {
  if grep -qE -- "$2" "$work/err"; then fail "$1" "did not expect '$2' in:" "$(tail -n 5 "$work/err")"; else pass "$1"; fi
}

succeeds "compile" compile -o "$work/m.sla"
succeeds "train" train "$work/m.sla" --out "$work/run"

# Losses per token and logits, compared with each other and with the mean.
for window in "" "--window 20 --stride 7"; do
  # shellcheck disable=SC2086 # several words
  succeeds "eval --per-token $window" "$sluice" eval "$work/m.sla" --weights "$work/run" --data "$work/held-out.txt" --json \
    --per-token "$work/losses.npy" $window
  cp "$work/out" "$work/eval.json"
  # shellcheck disable=SC2086 # several words
  succeeds "logits $window" "$sluice" logits "$work/m.sla" --weights "$work/run" --data "$work/held-out.txt" \
    -o "$work/logits.npy" $window
  succeeds "logits, losses and their mean agree $window" python3 "$root/test/e2e/support/compare_losses.py" "$work/held-out.txt" \
    "$work/logits.npy" "$work/losses.npy" "$work/eval.json"
done
exits 2 "logits to a folder are refused" "$sluice" logits "$work/m.sla" --weights "$work/run" --data "$work/held-out.txt" \
  -o "$work"
if [[ -w /dev/full ]]; then
  exits 2 "logits to a device are refused" "$sluice" logits "$work/m.sla" --weights "$work/run" \
    --data "$work/held-out.txt" -o /dev/full
fi

# Initial weights, and a run that starts from them.
succeeds "train --steps 0 needs no data" "$sluice" train "$work/m.sla" --steps 0 --out "$work/start"
succeeds "train --weights" train "$work/m.sla" --out "$work/from-start" --weights "$work/start"
same_loss='f[0][0]["loss"] == f[1][0]["loss"] and f[0][-1] | {"tokens_per_s": 0} == f[1][-1] | {"tokens_per_s": 0}'
holds "it gives the same run" "$same_loss" "$work/run/metrics.jsonl" "$work/from-start/metrics.jsonl"
succeeds "train --weights from a trained run" train "$work/m.sla" --out "$work/further" --weights "$work/run"
holds "starts below the first loss of that run" 'f[0][0]["loss"] < f[1][0]["loss"] - 0.5' "$work/further/metrics.jsonl" \
  "$work/run/metrics.jsonl"
succeeds "train --weights --match" train "$work/m.sla" --out "$work/part" --steps 1 --weights "$work/run" \
  --match 'stages.0.*' --match '*.norm.*'
reports "reports loaded and skipped tensors" 'took [0-9]+ of [0-9]+ tensors from .*stages\.0\.token\.weight.*; left as init'
exits 2 "a pattern without a match" train "$work/m.sla" --out "$work/none" --weights "$work/run" --match 'stage.*'
exits 2 "--match without --weights" train "$work/m.sla" --out "$work/none" --match '*'
exits 2 "--weights on --resume" train "$work/m.sla" --out "$work/run" --resume --weights "$work/start"
succeeds "a wider model" compile --set width=64 -o "$work/wide.sla"
exits 2 "weights of other shapes" train "$work/wide.sla" --out "$work/none" --weights "$work/run" --match 'stages.0.*'
reports "the message names both shapes" '\[256,64\].*\[256,32\]'
succeeds "none of these runs was written" test ! -e "$work/none"

# Settings: at the start, at a resume, retained by later ones; equivalent to compiling with them.
fast=(--set training.learning_rate=5e-3)
succeeds "check --set" "$sluice" check "$work/spec.json" --set stages.1.hierarchy='1@1 1@2 1@1'
exits 1 "check --set of a leak" "$sluice" check "$work/spec.json" --set stages.1.shift=0 --no-replay
exits 2 "a setting of an unknown key" "$sluice" check "$work/spec.json" --set training.rate=1
reports "names the flag and the location" 'spec\.json:4:[0-9]+: --set training\.rate=1: '
succeeds "compile --set" compile "${fast[@]}" -o "$work/fast.sla"
succeeds "train an artifact compiled with --set" train "$work/fast.sla" --out "$work/fast-compiled"
succeeds "train --set" train "$work/m.sla" --out "$work/fast-trained" "${fast[@]}"
timeless='[{k: v for k, v in m.items() if k not in ("tokens_per_s", "set")} for m in run]'
holds "both give the same steps" "(lambda a, b: len(a) == 20 and a == b)(*($timeless for run in f))" \
  "$work/fast-compiled/metrics.jsonl" "$work/fast-trained/metrics.jsonl"
exits 2 "train --set of another model" train "$work/m.sla" --out "$work/none" --set width=64
reports "names the required artifact" 'sluice compile --set width=64'

succeeds "10 of 20 steps" train "$work/m.sla" --out "$work/changed" --steps 10
succeeds "resume with another rate" train "$work/m.sla" --out "$work/changed" --resume --steps 16 --save-every 3 "${fast[@]}"
cp "$work/changed/metrics.jsonl" "$work/straight.jsonl"
holds "the rate changes after step 10, and a line reports it" \
  '({m["step"]: m.get("set") for m in f[0]}[11] == ["training.learning_rate=5e-3"] and
    f[0][10]["learning_rate"] > 2 * f[0][9]["learning_rate"])' "$work/straight.jsonl"
succeeds "back to step 12" bash -c "echo 12 > '$work/changed/latest'"
succeeds "a bare resume" train "$work/m.sla" --out "$work/changed" --resume
holds "preserves the rate and the 16 steps, bitwise" "(lambda a, b: len(a) == 16 and a == b)(*($timeless for run in f))" \
  "$work/straight.jsonl" "$work/changed/metrics.jsonl"
holds "run.json records it" 'f[0]["steps"] == 16 and f[0]["changes"][0]["step"] == 10 and len(f[0]["changes"]) == 1' \
  "$work/changed/run.json"
succeeds "steps past the schedule" train "$work/m.sla" --out "$work/changed" --resume --steps 22
reports "are said" "steps 21 to 22 run at the schedule's floor"

# Two phases, resumed in the first and in the second: rates follow the formula, steps are the same.
phases=(--set 'training.schedule={"kind": "inverse_root", "warmup": 2, "steps": 8, "floor": 0, "then": {"steps": 4}}')
succeeds "compile two phases" compile "${phases[@]}" -o "$work/phases.sla"
succeeds "train both" train "$work/phases.sla" --out "$work/both" --steps 13
reports "reports the end of the second phase" "step 13 runs at the schedule's floor.*--set training.schedule.then.steps=5 spans all"
for steps in 5 10 13; do
  resume=(); [[ $steps == 5 ]] || resume=(--resume)
  succeeds "train to step $steps" train "$work/phases.sla" --out "$work/pieces" --steps "$steps" "${resume[@]}"
done
holds "resumed in either phase, it gives the same steps" "(lambda a, b: len(a) == 13 and a == b)(*($timeless for run in f))" \
  "$work/both/metrics.jsonl" "$work/pieces/metrics.jsonl"
succeeds "inspect two phases" "$sluice" inspect "$work/phases.sla" --json
cp "$work/out" "$work/phases.json"
holds "a run without --steps trains both phases" 'f[0]["training_steps"] == 12' "$work/phases.json"
holds "rates rise, fall with the root, then with a cosine to 0" \
  'all(abs(m["learning_rate"] / f[0][1]["learning_rate"] - r) < 1e-5 for m, r in zip(f[0], [0.5, 1] + [(2 / n)**0.5 for n in range(3, 9)] + [0.426777, 0.25, 0.0732233, 0, 0]))' \
  "$work/both/metrics.jsonl"

# An allowed leak.
succeeds "compile --allow-leak" compile --set stages.1.shift=0 --allow-leak -o "$work/leak.sla"
reports "warns, and names the flag that caused the leak" \
  'warning: .*spec\.json:[0-9:]+: --set stages\.1\.shift=0: not causal: .*compiled because of --allow-leak'
exits 1 "without --allow-leak, a leak is rejected" compile --set stages.1.shift=0 -o "$work/none.sla"
reports "and the message names the flag" 'spec\.json:[0-9:]+: --set stages\.1\.shift=0: not causal: '
exits 1 "a leak located at another setting" "$sluice" check --no-replay "$work/spec.json" --set stages.1.mask=bidirectional \
  --set training.clip=2
cp "$work/out" "$work/err"
reports "names only its own flag" 'spec\.json:[0-9:]+: --set stages\.1\.mask=bidirectional: not causal: '
# Neither a proof nor a leak: the budget of the check is exhausted.
succeeds "compile a spec that is not proved" compile --operations 100 --allow-leak -o "$work/open.sla"
reports "warns that it is not proved" 'warning: .*not proved causal: the budget of 100 operations ran out.*marked as not proved'
succeeds "inspect an artifact that is not proved" "$sluice" inspect "$work/open.sla"
reports "and the artifact is not called leaky" 'is not proved causal: whether its predictions read what they predict is not known'
cp "$work/out" "$work/err"
reports "nor causal" 'causality: NOT proved, and no leak was found'
exits 1 "without the flag, it is rejected" compile --operations 100 -o "$work/none.sla"
reports "with a remedy" 'not proved causal: .*allow more with --operations'
exits 1 "check reports it too" "$sluice" check --operations 100 --json "$work/spec.json"
cp "$work/out" "$work/open.json"
holds "as the third verdict" '(lambda v: v["verdict"] == "not proved" and v["exhausted_operations"] == 100 and
  v["witness"] is None and not v["modes"])(f[0])' "$work/open.json"
# Enough for the verdict, and too few for the step of groups by coprime factors.
cat > "$work/coprime.json" << 'SPEC'
{
  "sluice": 1, "vocabulary": 6, "context": 64, "batch": 1, "width": 4, "defaults": { "heads": 1, "feed_forward": 4 },
  "stages": [ { "op": "embedding" },
    { "op": "shorten", "factor": 101 }, { "op": "layer" }, { "op": "upsample", "factor": 101 },
    { "op": "shorten", "factor": 103 }, { "op": "layer" }, { "op": "upsample", "factor": 103 },
    { "op": "shorten", "factor": 107 }, { "op": "layer" }, { "op": "upsample", "factor": 107 },
    { "op": "shorten", "factor": 109 }, { "op": "layer" }, { "op": "upsample", "factor": 109 },
    { "op": "shift", "by": 500 }, { "op": "layer" }, { "op": "head" } ]
}
SPEC
succeeds "check --operations that are too few for the step" "$sluice" check --operations 7000000 --no-advice --json \
  --certificate "$work/coprime.txt" "$work/coprime.json"
cp "$work/out" "$work/proved.json"
holds "the verdict is the same, and no step is proved" '(lambda v: v["verdict"] == "proved" and "values" not in v["step"] and
  "the budget of 7 million operations ran out" in v["step"]["refused"])(f[0])' "$work/proved.json"
succeeds "nor is one in the certificate" grep -q '^mode step is none$' "$work/coprime.txt"
for artifact in m leak; do
  mark=silent
  [[ $artifact = leak ]] && mark=reports
  succeeds "$artifact: train" train "$work/$artifact.sla" --steps 3 --out "$work/$artifact-run"
  $mark "$artifact: train and the mark" 'compiled with --allow-leak'
  succeeds "$artifact: generate" "$sluice" generate "$work/$artifact.sla" -w "$work/$artifact-run" -n 2
  $mark "$artifact: generate and the mark" 'compiled with --allow-leak'
  succeeds "$artifact: inspect" "$sluice" inspect "$work/$artifact.sla"
  $mark "$artifact: inspect and the mark" 'compiled with --allow-leak'
  succeeds "$artifact: logits" "$sluice" logits "$work/$artifact.sla" -w "$work/$artifact-run" --data "$work/held-out.txt" \
    -o "$work/logits.npy"
  $mark "$artifact: logits and the mark" 'compiled with --allow-leak'
  succeeds "$artifact: bench" "$sluice" bench "$work/$artifact.sla" --steps 1 --json
  cp "$work/out" "$work/$artifact-bench.json"
  succeeds "$artifact: eval" "$sluice" eval "$work/$artifact.sla" -w "$work/$artifact-run" --data "$work/held-out.txt" --json
  cp "$work/out" "$work/$artifact-eval.json"
  $mark "$artifact: eval and the mark" 'compiled with --allow-leak'
  succeeds "$artifact: report" "$sluice" report "$work/$artifact-run"
  cp "$work/$artifact-run/report.html" "$work/err"
  $mark "$artifact: report and the mark" 'compiled with --allow-leak'
done
holds "eval, bench and metrics contain the mark, or its absence" \
  '([x["leak_allowed"] for x in f[:4]] == [True, False, True, False] and "leak_allowed" not in f[5][0] and
    all(m["leak_allowed"] for m in f[4]))' "$work"/{leak,m}-eval.json "$work"/{leak,m}-bench.json \
  "$work"/{leak-run,m-run}/metrics.jsonl

succeeds "bench of a token's kernels" "$sluice" bench "$work/m.sla" --steps 1 --generate --kernels --json
cp "$work/out" "$work/token.json"
holds "skipped launches do not count" \
  '(0 < sum(k["launches"] for k in f[0]["step_kernels"]) < f[0]["step_launches"] and
    all(k["bytes"] > 0 and k["ms"] > 0 for k in f[0]["step_kernels"]))' "$work/token.json"

# Data: a folder, a short file among others, ids outside the byte range.
exits 2 "a folder as data" "$sluice" train "$work/m.sla" --data "$work" --out "$work/none"
reports "the message suggests its files" 'found a directory; name the files in it, as in .*/\*'
echo short > "$work/short.txt"
succeeds "a short file among others" "$sluice" train "$work/m.sla" --steps 1 --out "$work/skipped" \
  --data "$work/short.txt" "$work/text.txt"
reports "is skipped and counted" 'skipped 1 of 2 files, shorter than 33 bytes'
succeeds "a larger vocabulary" compile --set vocabulary=300 -o "$work/large.sla"
succeeds "trains" train "$work/large.sla" --steps 1 --out "$work/large"
reports "with a note" 'ids 256 to 299 never occur'

# Token ids: two arrays of NumPy and a file without a header are the same data.
ids() { python3 "$root/test/e2e/support/token_ids.py" "$@"; }
ids write 3000 1000 1 "$work/train.u2" "$work/train.u2.npy" "$work/train.i4.npy"
ids write 500 1000 2 "$work/held.u2" "$work/held.i4.npy"
cat > "$work/ids.json" << 'SPEC'
{ "sluice": 1, "vocabulary": 1000, "context": 32, "batch": 2, "width": 8,
  "stages": [ { "op": "embedding" }, { "op": "head" } ],
  "training": { "learning_rate": 0.02, "schedule": { "warmup": 4, "steps": 20 } } }
SPEC
succeeds "compile 1000 ids" "$sluice" compile "$work/ids.json" -t "$targets" -o "$work/ids.sla"
train_ids() { "$sluice" train "$work/ids.sla" --cpu-target "$targets" "$@"; }
succeeds "train on uint16" train_ids --data "uint16:$work/train.u2" --eval-data "uint16:$work/held.u2" --save-every 19 \
  --keep 9 --eval-every 10 --out "$work/ids-run"
succeeds "its loss is the reference's" ids loss "$work/ids.json" "$work/ids-run/checkpoints/19/weights.safetensors" \
  "$work/ids-run/metrics.jsonl" 20 "$work/train.u2"
holds "in bits per token, and none per byte" \
  '(abs(f[0][0]["loss"] - math.log(1000)) < 0.01 and f[0][19]["loss"] < f[0][0]["loss"] - 0.001 and "bits_per_byte" not in f[0][19] and
    math.isclose(f[0][19]["bits_per_token"], f[0][19]["loss"] / math.log(2)) and "eval_bits_per_byte" not in f[0][19] and
    math.isclose(f[0][19]["eval_perplexity"], math.exp(f[0][19]["eval_loss"])))' "$work/ids-run/metrics.jsonl"
succeeds "resume of uint16" train_ids --resume --out "$work/ids-run" --steps 22
holds "run.json has the type and the number of ids" \
  '([(x["flag"], x["name"]) for x in f[0]["command"]["files"][1:]] == [("--data", "uint16"), ("--eval-data", "uint16")] and
    f[0]["data"][0]["tokens"] == 3000)' "$work/ids-run/run.json"
for array in u2 i4; do
  succeeds "train on .npy of $array" train_ids --data "$work/train.$array.npy" --out "$work/ids-$array"
  holds "makes the same steps" \
    '[m["loss"] for m in f[0]] == [m["loss"] for m in f[1]][:20] and "eval_loss" not in f[0][19]' \
    "$work/ids-$array/metrics.jsonl" "$work/ids-run/metrics.jsonl"
done
exits 2 "resume with ids of another type" train_ids --resume --out "$work/ids-u2" --steps 22 --data "$work/train.i4.npy"
succeeds "eval of ids" "$sluice" eval "$work/ids.sla" -w "$work/ids-run" --data "$work/held.i4.npy" --json \
  --per-token "$work/losses.npy"
cp "$work/out" "$work/eval.json"
holds "claims no bytes" \
  '(f[0]["bits_per_byte"] is f[0]["bytes"] is f[0]["characters"] is None and "words" not in f[0] and
    f[0]["tokens"] == 499 and math.isclose(f[0]["perplexity"], 2 ** f[0]["bits_per_token"]) and
    f[0]["files"][0]["bits_per_byte"] is None)' "$work/eval.json"
succeeds "logits of ids" "$sluice" logits "$work/ids.sla" -w "$work/ids-run" --data "uint16:$work/held.u2" \
  -o "$work/logits.npy"
succeeds "agree with their losses" python3 "$root/test/e2e/support/compare_losses.py" "$work/held.u2" "$work/logits.npy" \
  "$work/losses.npy" "$work/eval.json"
succeeds "report of ids" "$sluice" report "$work/ids-run"
succeeds "is per token" bash -c "grep -q 'bits per token' '$work/ids-run/report.html' &&
  ! grep -q 'bits per byte' '$work/ids-run/report.html'"
exits 2 "a report of bytes and ids" "$sluice" report "$work/run" "$work/ids-run" -o "$work/mixed.html"
reports "is refused" 'found bits per token, which are not comparable'

generate_ids() { "$sluice" generate "$work/ids.sla" -w "$work/ids-run" "$@"; }
succeeds "generate ids" generate_ids --prompt-tokens "5 999 17" -n 6 --seed 3
cp "$work/out" "$work/written.txt"
succeeds "prints nine" grep -qE '^5 999 17( [0-9]+){6} $' "$work/written.txt"
read -ra whole < "$work/written.txt"
succeeds "generate ids as JSON" generate_ids --prompt-tokens "5 999 17" -n 6 --seed 3 --json
cp "$work/out" "$work/written.json"
holds "which are the same" 'f[0]["prompt_ids"] + f[0]["ids"] == list(map(int, "'"${whole[*]}"'".split())) and "text" not in f[0]' \
  "$work/written.json"
succeeds "half of them" generate_ids --prompt-tokens "5 999 17" -n 3 --seed 3 --save-session "$work/session"
succeeds "and the rest" generate_ids --session "$work/session" -n 3 --no-echo
cp "$work/out" "$work/rest.txt"
succeeds "make the same text" test "$(cat "$work/rest.txt")" = "${whole[*]:6} "
exits 2 "an id beyond the vocabulary" generate_ids --prompt-tokens "5 1000"
reports "names its place" '--prompt-tokens: word 2: expected a token id from 0 to 999, found "1000"'
succeeds "a prompt of text" generate_ids --prompt a -n 2
reports "gets a note" 'ids from 256 on are not drawn; --prompt-tokens'
exits 2 "a stop text of ids" generate_ids --prompt-tokens 5 --stop a

exits 2 "ids beyond the vocabulary" "$sluice" eval "$work/m.sla" -w "$work/run" --data "uint16:$work/held.u2"
reports "with index, id and vocabulary" 'held\.u2: token [0-9]+: expected token ids below the vocabulary of 256, found [0-9]+'
head -c 999 "$work/train.u2" > "$work/odd.u2"
exits 2 "half an id" train_ids --data "uint16:$work/odd.u2" --out "$work/none"
reports "is counted" 'odd\.u2: expected an even number of bytes, as each uint16 id has 2, found 999'
exits 2 "numbers that are no ids" train_ids --data "$work/losses.npy" --out "$work/none"
reports "by their type" 'array of one dimension of uint16 or int32, found numbers of the type "<f4"; convert it'
exits 2 "text and ids" train_ids --data "uint16:$work/train.u2" "$work/text.txt" --out "$work/none"
reports "are both named" 'expected texts or token ids, found both: the text .*text\.txt and the ids uint16:'
exits 2 "held-out text for ids" train_ids --data "uint16:$work/train.u2" --eval-data "$work/text.txt" --out "$work/none"
reports "is refused" '--eval-data: expected token ids, as --data has, found text'
exits 2 "a sample of text" train_ids --data "uint16:$work/train.u2" --sample-prompt a --out "$work/none"
exits 2 "analyses of ids" "$sluice" analyze context "$work/ids.sla" -w "$work/ids-run" --data "uint16:$work/held.u2"
reports "name what reads them" 'expected a text, found token ids; train, eval and logits read them'
succeeds "nothing of these was written" test ! -e "$work/none"
exits 2 "white space of ids" "$sluice" check "$root/models/small/dynamic.json" --set vocabulary=1000
reports "is refused with a remedy" 'at most 256, whose tokens are bytes, for the rule "whitespace".*found 1000; take the rule'

# A tokenizer: texts are encoded once; the run stores the tokenizer, and other commands find it there.
text_tokens() { XDG_CACHE_HOME="$work/cache" "$@"; }
write_text "$work/pieces.txt" 6000 7
write_text "$work/pieces-held.txt" 900 8
printf 'na\xc3\xafve \xff\n' >> "$work/pieces-held.txt"
succeeds "train a tokenizer" "$sluice" tokenizer --data "$work/pieces.txt" --vocabulary 300 -o "$work/pieces.tok"
train_pieces() { text_tokens train_ids --tokenizer "$work/pieces.tok" --data "$work/pieces.txt" "$@"; }
succeeds "train with it" train_pieces --eval-data "$work/pieces-held.txt" --save-every 10 --keep 9 --eval-every 10 \
  --sample-prompt "the water" --sample-tokens 4 --out "$work/pieces-run"
succeeds "the run has it" cmp "$work/pieces.tok" "$work/pieces-run/tokenizer.tok"
succeeds "ids are stored for each text" test "$(find "$work/cache/sluice/tokens" -name '*.ids' | wc -l)" = 2
succeeds "train as far as half" train_pieces --eval-data "$work/pieces-held.txt" --save-every 10 --eval-every 10 --steps 10 --out "$work/pieces-half"
succeeds "resume" text_tokens "$sluice" train --resume "$work/pieces-half" --steps 20
succeeds "has the same weights" cmp "$work/pieces-run/checkpoints/20/weights.safetensors" "$work/pieces-half/checkpoints/20/weights.safetensors"
succeeds "encode held-out text" "$sluice" tokenizer --tokenizer "$work/pieces.tok" --encode "$work/pieces-held.txt" -o "$work/pieces.npy"
succeeds "eval of its ids" "$sluice" eval "$work/ids.sla" -w "$work/pieces-run" --data "$work/pieces.npy" --json
cp "$work/out" "$work/eval-ids.json"
succeeds "eval of the text" text_tokens "$sluice" eval "$work/ids.sla" -w "$work/pieces-run" --data "$work/pieces-held.txt" --json
cp "$work/out" "$work/eval-text.json"
# The first token, "the" or another word, is not scored.
ids first "$work/pieces.npy" "$work/first.npy"
succeeds "decode the first token" "$sluice" tokenizer --tokenizer "$work/pieces.tok" --decode "$work/first.npy" -o "$work/first.txt"
holds "has the same nats, of the text's bytes" \
  "(f[0]['nats'] == f[1]['nats'] and f[0]['tokens'] == f[1]['tokens'] and f[1]['bytes'] == $(stat -c %s "$work/pieces-held.txt") - $(stat -c %s "$work/first.txt") and
    math.isclose(f[1]['bits_per_byte'], f[1]['nats'] / math.log(2) / f[1]['bytes']))" "$work/eval-ids.json" "$work/eval-text.json"
succeeds "generate text" text_tokens "$sluice" generate "$work/ids.sla" -w "$work/pieces-run" --prompt "the water" -n 40 --temperature 2 --seed 1
cp "$work/out" "$work/generated"
succeeds "with its prompt" grep -qa '^the water' "$work/generated"
exits 2 "texts and ids together" text_tokens "$sluice" eval "$work/ids.sla" -w "$work/pieces-run" --data "$work/pieces.npy" "$work/pieces-held.txt"
reports "are rejected" 'expected texts or token ids, found both'
succeeds "save a session" text_tokens "$sluice" generate "$work/ids.sla" -w "$work/pieces-run" --prompt "the water" -n 3 --save-session "$work/pieces.session"
succeeds "another tokenizer" "$sluice" tokenizer --data "$work/pieces-held.txt" --vocabulary 280 -o "$work/other.tok"
exits 2 "a session continued with it" text_tokens "$sluice" generate "$work/ids.sla" -w "$work/pieces-run" --tokenizer "$work/other.tok" \
  --session "$work/pieces.session" -n 3
reports "is rejected" 'expected the tokenizer of the weights'
succeeds "with its own it continues" text_tokens "$sluice" generate "$work/ids.sla" -w "$work/pieces-run" --session "$work/pieces.session" -n 3
exits 2 "an array as numbers without a header" train_ids --data "uint16:$work/train.u2.npy" --out "$work/none"
reports "is rejected" 'expected uint16 numbers without a header, found .*leave "uint16:" out'
holds "held-out text has both units" 'all(k in [m for m in f[0] if "eval_loss" in m][0] for k in ("eval_bits_per_byte", "eval_bits_per_token"))' \
  "$work/pieces-run/metrics.jsonl"
exits 2 "a tokenizer of too many ids" text_tokens "$sluice" train "$work/m.sla" --cpu-target "$targets" --tokenizer "$work/pieces.tok" --data "$work/pieces.txt" --out "$work/none"
reports "is refused" 'expected a tokenizer of at most 256 ids, the vocabulary of the artifact, found 300; compile the spec with --set vocabulary=300'

succeeds "report of two runs" "$sluice" report "$work/run" "$work/fast-trained" -o "$work/compared.html"
succeeds "shows what differs" grep -qE 'training.learning_rate</th><td>0.001</td><td>0.005' "$work/compared.html"
succeeds "and omits equal settings" bash -c "! grep -q '<th>width' '$work/compared.html'"
finish

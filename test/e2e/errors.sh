#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Bad input: one message with the location, exit status 2, no output written, no compiler messages.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

talk='Assertion|Stack dump|failed to legalize|terminate called|PLEASE submit|Segmentation'

# refuses NAME PATTERN COMMAND...: exit status 2, and the message on stderr, all its lines taken together, matches the
# extended pattern in any case.
refuses() {
  local name=$1 pattern=$2 status=0
  shift 2
  "$@" > "$work/out" 2> "$work/err" || status=$?
  if [[ $status -ne 2 ]]; then
    fail "$name" "command: $*" "exit status $status, expected 2" "$(tail -n 5 "$work/err")"
  elif ! grep -qziE -- "$pattern" "$work/err"; then
    fail "$name" "the message does not match '$pattern':" "$(head -n 5 "$work/err")"
  elif grep -qE -- "$talk" "$work/err"; then
    fail "$name" "the message is not for users:" "$(head -n 5 "$work/err")"
  else
    pass "$name"
  fi
}

absent() {
  if [[ -e $2 ]]; then fail "$1" "$2 was written"; else pass "$1"; fi
}

# write_spec FILE LINE4 LINE7: a spec with these two lines at the locations of the messages below.
write_spec() {
  cat > "$1" << SPEC
{
  "sluice": 1, "name": "bad", "vocabulary": 256, "context": 32, "batch": 2,
  "defaults": { "heads": 4 },
  $2
  "stages": [
    { "op": "embedding" },
    $3
    { "op": "head" }
  ]
}
SPEC
}

width='"width": 32,'
layer='{ "op": "layer" }, { "op": "dropout", "rate": 0.1, "to": "dropped" },'
write_spec "$work/good.json" "$width" "$layer"
write_spec "$work/key.json" '"widht": 32,' "$layer"
write_spec "$work/type.json" '"width": "wide",' "$layer"
write_spec "$work/syntax.json" '"width": 32' "$layer"
write_spec "$work/heads.json" "$width" '{ "op": "layer", "heads": 5 },'
write_spec "$work/op.json" "$width" '{ "op": "lair" },'
write_spec "$work/hierarchy.json" "$width" '{ "op": "hourglass", "hierarchy": "1@1 1@3 1@2" },'
write_spec "$work/stream.json" "$width" '{ "op": "add", "with": "nowhere" },'
write_spec "$work/leak.json" "$width" '{ "op": "hourglass", "hierarchy": "1@1 1@4 1@1", "shift": 0 },'
head -c 60 "$work/good.json" > "$work/cut.json"

succeeds "the base spec is valid" "$sluice" check "$work/good.json"
cp "$work/good.json" "$work/"$'na\xffme.json'
succeeds "check --json of a name that is not UTF-8" "$sluice" check "$work/"$'na\xffme.json' --json
refuses "missing spec" 'nowhere\.json' "$sluice" check "$work/nowhere.json"
refuses "a folder as spec" "$(basename "$work")" "$sluice" check "$work"
refuses "truncated spec" 'cut\.json:[0-9]+:[0-9]+' "$sluice" check "$work/cut.json"
refuses "broken JSON" 'syntax\.json:5:[0-9]+' "$sluice" check "$work/syntax.json"
refuses "unknown key, with the nearest one" 'key\.json:4:[0-9]+.*widht.*width' "$sluice" check "$work/key.json"
refuses "wrong type" 'type\.json:4:[0-9]+' "$sluice" check "$work/type.json"
refuses "heads that do not divide the width" 'heads\.json:7:[0-9]+' "$sluice" check "$work/heads.json"
refuses "unknown op" 'op\.json:7:[0-9]+' "$sluice" check "$work/op.json"
refuses "factors that do not mirror" 'hierarchy\.json:7:[0-9]+' "$sluice" check "$work/hierarchy.json"
refuses "unknown stream" 'stream\.json:7:[0-9]+.*nowhere' "$sluice" check "$work/stream.json"

refuses "unknown subcommand" 'chekc' "$sluice" chekc "$work/good.json"
refuses "unknown flag" 'outptu' "$sluice" compile "$work/good.json" --outptu x
refuses "no subcommand" 'check|help' "$sluice"
refuses "compile of a bad spec" 'type\.json:4:[0-9]+' "$sluice" compile "$work/type.json" -o "$work/bad.sla"
absent "a bad spec writes no artifact" "$work/bad.sla"
refuses "output in a missing folder" 'nowhere' "$sluice" compile "$work/good.json" -o "$work/nowhere/x.sla"
refuses "a folder as output" 'found a directory' "$sluice" compile "$work/good.json" -o "$work"
ln -s /dev/null "$work/device"
refuses "a device as output" 'not a regular file' "$sluice" compile "$work/good.json" -o "$work/device"
if [[ -L $work/device ]]; then pass "the device still exists"; else fail "the device still exists" "$work/device was replaced"; fi
refuses "the spec as output" 'one that this command reads' "$sluice" compile "$work/good.json" -o "$work/good.json"
refuses "neither output nor stage" '-o FILE or --emit' "$sluice" compile "$work/good.json"
refuses "unknown target" 'sm_1' "$sluice" compile "$work/good.json" -o "$work/bad.sla" --target sm_1
absent "an unknown target writes no artifact" "$work/bad.sla"

# A leak is a finding, not bad input.
exits 1 "a leak" "$sluice" check "$work/leak.json"
exits 1 "compile rejects a leak" "$sluice" compile "$work/leak.json" -o "$work/leak.sla"
absent "a leak writes no artifact" "$work/leak.sla"
succeeds "compile --allow-leak" "$sluice" compile "$work/leak.json" -o "$work/leak.sla" --allow-leak

art=$work/good.sla
write_text "$work/data.txt" 4000 1
succeeds "compile" "$sluice" compile "$work/good.json" -o "$art"
size=$(stat -c %s "$art")
head -c "$((size / 2))" "$art" > "$work/half.sla"
head -c "$((size - 1))" "$art" > "$work/short.sla"
: > "$work/empty.sla"
python3 - "$art" "$work/flipped.sla" << 'PYTHON'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[len(data) // 2] ^= 1
open(sys.argv[2], "wb").write(data)
PYTHON
for kind in half short empty flipped; do
  refuses "$kind artifact" "$kind\.sla" "$sluice" inspect "$work/$kind.sla"
done
refuses "missing artifact" 'none\.sla' "$sluice" inspect "$work/none.sla"
refuses "text as artifact" 'data\.txt' "$sluice" inspect "$work/data.txt"

train=("$sluice" train "$art" --steps 3 --save-every 1)
refuses "missing data" 'none\.txt' "${train[@]}" --data "$work/none.txt" --out "$work/run0"
head -c 8 "$work/data.txt" > "$work/tiny.txt"
refuses "data shorter than a row" 'tiny\.txt' "${train[@]}" --data "$work/tiny.txt" --out "$work/run0"
refuses "resume of a missing run" 'run0: expected a run to resume, found no such directory' "$sluice" train --resume "$work/run0"
succeeds "train --resume of a new run" "${train[@]}" --data "$work/data.txt" --out "$work/run" --resume

weights=$(find "$work/run/checkpoints" -name '*.safetensors' | sort | tail -n 1)
head -c 100 "$weights" > "$work/cut.safetensors"
head -c "$(($(stat -c %s "$weights") - 4))" "$weights" > "$work/short.safetensors"
evaluate=("$sluice" eval "$art" --data "$work/data.txt")
refuses "missing weights" 'none\.safetensors' "${evaluate[@]}" --weights "$work/none.safetensors"
refuses "weights truncated in the header" 'cut\.safetensors' "${evaluate[@]}" --weights "$work/cut.safetensors"
refuses "weights truncated in the data" 'short\.safetensors' "${evaluate[@]}" --weights "$work/short.safetensors"
refuses "weights of another model" 'vanilla\.weights\.safetensors' \
  "${evaluate[@]}" --weights "$root/test/golden/expected/vanilla.weights.safetensors"

# A step of a run.
refuses "a step without a checkpoint" 'expected a run with a checkpoint of step 7, found steps 1, 2, 3; name one of them' \
  "${evaluate[@]}" --weights "$work/run" --step 7
refuses "a step of a checkpoint" 'expected a run with --step, found a checkpoint' \
  "${evaluate[@]}" --weights "$work/run/checkpoints/1" --step 1
refuses "a step of a file" 'expected a run with --step, found a file' "${evaluate[@]}" --weights "$weights" --step 1
for step in 1 3; do
  succeeds "eval --step $step" "${evaluate[@]}" --weights "$work/run" --step "$step" --json
  cp "$work/out" "$work/eval.json"
  succeeds "evaluates that checkpoint's weights" grep -q "checkpoints/$step/weights" "$work/eval.json"
  succeeds "logits --step $step" "$sluice" logits "$art" --weights "$work/run" --step "$step" --data "$work/tiny.txt" -o "$work/$step.npy"
  succeeds "logits of that checkpoint" "$sluice" logits "$art" --weights "$work/run/checkpoints/$step" --data "$work/tiny.txt" -o "$work/own.npy"
  succeeds "are the same" cmp "$work/$step.npy" "$work/own.npy"
done
succeeds "eval of the file that names the latest checkpoint" "${evaluate[@]}" --weights "$work/run/latest" --json
cp "$work/out" "$work/eval.json"
succeeds "takes that checkpoint" grep -q "run/checkpoints/3/weights" "$work/eval.json"
succeeds "generate accepts that path too" "$sluice" generate "$art" --weights "$work/run/latest" --prompt a --tokens 2
for step in 1 3; do
  succeeds "analyze --step $step" "$sluice" analyze frequency "$art" --weights "$work/run" --step "$step" --data "$work/data.txt" --json
  cp "$work/out" "$work/frequency-$step.json"
done
for step in 1 3; do
  succeeds "train --step $step" "$sluice" train "$art" --steps 0 --out "$work/from-$step" --weights "$work/run" --step "$step"
  succeeds "starts with that checkpoint's weights" \
    cmp "$work/from-$step/checkpoints/0/weights.safetensors" "$work/run/checkpoints/$step/weights.safetensors"
done
begin=("$sluice" train "$art" --steps 0 --out "$work/begun")
refuses "train from a missing step" 'expected a run with a checkpoint of step 9, found steps 1, 2, 3; name one' \
  "${begin[@]}" --weights "$work/run" --step 9
refuses "train from a step of a file" 'expected a run with --step, found a file' "${begin[@]}" --weights "$weights" --step 1 --match '*'
refuses "train from a step of a missing run" 'expected --weights with --step, found none; name the run' "${begin[@]}" --step 1
exits 1 "analyze uses that checkpoint's weights" cmp "$work/frequency-1.json" "$work/frequency-3.json"
refuses "analyze of a missing step" 'checkpoint of step 9' "$sluice" analyze frequency "$art" --weights "$work/run" --step 9 --data "$work/data.txt"
refuses "a file of a run as artifact" 'run\.json: expected .*, found JSON; it is a part of a run; name the artifact that the run was trained from' \
  "$sluice" inspect "$work/run/run.json"
refuses "a metric of a model without inputs" 'expected a model with named inputs with --metric' \
  "$sluice" eval "$art" --weights "$work/run" --metric bleu --reference "$work/data.txt"
refuses "a stride larger than the window" '--stride: expected a stride from 1 to the window of 32, found 33; 0 takes half the window' \
  "${evaluate[@]}" --weights "$work/run" --stride 33
refuses "a directory as held-out text" 'found a directory; name the files in it, as in .*/\*' "$sluice" ngram --train "$work/data.txt" --test "$work/run"
if grep -q -- --data "$work/err"; then fail "does not suggest flags of other commands" "$(cat "$work/err")"; else pass "does not suggest flags of other commands"; fi
: > "$work/short.txt"
refuses "a text without a byte" 'expected at least 1 byte \(a byte to count\), found 0;' "$sluice" ngram --train "$work/short.txt" --test "$work/data.txt"
succeeds "rows of a stream" "$sluice" logits "$art" --weights "$work/run" --stream stages.1 --data "$work/tiny.txt" -o "$work/rows.npy"
cp "$work/err" "$work/said"
succeeds "one row per token" grep -q 'wrote 8 rows of 32 numbers, one for every token, to ' "$work/said"
succeeds "rows of a dropout" "$sluice" logits "$art" --weights "$work/run" --stream dropped --data "$work/tiny.txt" -o "$work/dropped.npy"
succeeds "dropout outside training is the identity" cmp "$work/rows.npy" "$work/dropped.npy"
refuses "rows of a head" '--stream: expected a stream of the tokens: .*gives \(dropped\), found "stages.3", which makes no rows' \
  "$sluice" logits "$art" --weights "$work/run" --stream stages.3 --data "$work/tiny.txt" -o "$work/none.npy"
exits 1 "another step has other logits" cmp "$work/1.npy" "$work/3.npy"
refuses "generate from a missing step" 'checkpoint of step 9' "$sluice" generate "$art" --weights "$work/run" --step 9 --prompt a

refuses "--from without --resume" 'expected --resume with --from, found none' "${train[@]}" --data "$work/data.txt" --out "$work/run" --from 1
refuses "--from a step without a checkpoint" 'found steps 1, 2, 3; name one' "${train[@]}" --data "$work/data.txt" --out "$work/run" --resume --from 9
refuses "a patience without held-out text" '--patience: expected held-out text' "${train[@]}" --data "$work/data.txt" --out "$work/run1" --patience 2
absent "which writes nothing" "$work/run1"
cp "$work/run/checkpoints/3/weights.safetensors" "$work/third.safetensors"
succeeds "going back" "${train[@]}" --data "$work/data.txt" --out "$work/run" --resume --from 1 --set training.learning_rate=1e-4
succeeds "retains the later checkpoints" cmp "$work/third.safetensors" "$work/run/abandoned/1/checkpoints/3/weights.safetensors"
exits 1 "and trains with the new settings" cmp "$work/third.safetensors" "$work/run/checkpoints/3/weights.safetensors"
succeeds "rolling back again" "${train[@]}" --data "$work/data.txt" --out "$work/run" --resume --from 1
succeeds "drops the setting" cmp "$work/third.safetensors" "$work/run/checkpoints/3/weights.safetensors"
succeeds "and retains both" test -e "$work/run/abandoned/2/checkpoints/3/weights.safetensors"
finish

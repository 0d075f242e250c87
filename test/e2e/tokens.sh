#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Tokenizers: commands use the tokenizer of the run or of the weights, numbers per byte, character and word do not depend on it,
# and a large vocabulary takes the memory that is predicted.
# shellcheck disable=SC2317 # succeeds and exits call these functions
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

export SLUICE_KERNEL_CACHE=${SLUICE_KERNEL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sluice/kernels} XDG_CACHE_HOME=$work/cache
targets=cpu-avx2
reports() {
  if grep -qE -- "$2" "$work/err"; then pass "$1"; else fail "$1" "expected '$2' in:" "$(tail -n 5 "$work/err")"; fi
}
count_ids() { find "$XDG_CACHE_HOME/sluice/tokens" -name '*.ids' | wc -l; }

write_text "$work/text.txt" 6000 7
write_text "$work/held.txt" 900 8
printf '\nna\xc3\xafve  words\n\nwater\n' >> "$work/held.txt"
write_text "$work/other.txt" 900 9
cat > "$work/spec.json" << 'SPEC'
{ "sluice": 1, "vocabulary": 300, "context": 32, "batch": 2, "width": 16, "defaults": { "heads": 2, "rotary": true },
  "stages": [ { "op": "embedding", "to": "fine" },
              { "op": "boundaries", "name": "parts", "predictor": 8, "prior": 0.4 },
              { "op": "shorten", "segments": "parts" },
              { "op": "shift", "by": 1, "start": "null" },
              { "op": "layer" },
              { "op": "upsample", "segments": "parts", "by": 0 },
              { "op": "add", "with": "fine" },
              { "op": "head" } ],
  "training": { "learning_rate": 0.02, "schedule": { "warmup": 4, "steps": 20 } } }
SPEC
succeeds "compile" "$sluice" compile "$work/spec.json" -t "$targets" -o "$work/m.sla"
succeeds "a tokenizer" "$sluice" tokenizer --data "$work/text.txt" --vocabulary 300 -o "$work/text.tok"
succeeds "another tokenizer" "$sluice" tokenizer --data "$work/other.txt" --vocabulary 290 -o "$work/other.tok"
hash_of() { python3 -c 'import sys; print(open(sys.argv[1], "rb").read()[-32:].hex()[:16])' "$1"; }
hashes="the tokenizer of the weights .*\(hash $(hash_of "$work/text.tok")\), found another, .*other\.tok \(hash $(hash_of "$work/other.tok")\)"
train() { "$sluice" train "$work/m.sla" --cpu-target "$targets" "$@"; }
read_run() { "$sluice" "$1" "$work/m.sla" --weights "${weights:-$work/run}" --data "$work/held.txt" "${@:2}"; }
succeeds "train" train --tokenizer "$work/text.tok" --data "$work/text.txt" --eval-data "$work/held.txt" --eval-every 10 \
  --sample-prompt "the water" --sample-tokens 4 --steps 10 --out "$work/run"

# Bits per byte and per character, and the perplexity of words, from the losses of the tokens.
succeeds "encode" "$sluice" tokenizer --tokenizer "$work/text.tok" --encode "$work/held.txt" -o "$work/ids.npy"
succeeds "export the model" "$sluice" tokenizer --tokenizer "$work/text.tok" --export "$work/text.model"
for tokens in 100 0; do
  succeeds "eval of $tokens tokens" read_run eval --json --per-token "$work/losses.npy" --tokens "$tokens" --force
  cp "$work/out" "$work/eval.json"
  succeeds "its units are those of the text" python3 "$root/test/e2e/support/token_units.py" "$work/text.model" "$work/held.txt" \
    "$work/ids.npy" "$work/losses.npy" "$work/eval.json"
done

# Commands find the tokenizer in the run.
succeeds "boundaries" read_run boundaries --json --tokens 100000
cp "$work/out" "$work/boundaries.json"
holds "shows all tokens as text" \
  'f[0]["text"].replace("|", "") == open("'"$work/held.txt"'").read() and f[0]["tokens"] == f[1]["tokens"] + 1' \
  "$work/boundaries.json" "$work/eval.json"
analyze() { "$sluice" analyze "$1" "$work/m.sla" --weights "$work/run" --data "$work/held.txt" --json "${@:2}"; }
succeeds "analyze frequency" analyze frequency --bins 3
cp "$work/out" "$work/frequency.json"
holds "has all ids, and the bits of eval" \
  '(sum(len(b["tokens"]) for b in f[0]["bins"]) == 300 and sum(b["scored"] for b in f[0]["bins"]) == f[1]["tokens"] and
   math.isclose(sum((b["bits"] or 0) * b["scored"] for b in f[0]["bins"]), f[1]["nats"] / math.log(2), rel_tol=1e-6))' \
  "$work/frequency.json" "$work/eval.json"
succeeds "analyze context" analyze context
succeeds "analyze samples" analyze samples --prompts 2 --num 1
cp "$work/out" "$work/samples.json"
holds "counts words of texts" 'f[0]["reference"]["words"] > 10' "$work/samples.json"
succeeds "report" "$sluice" report "$work/run" --kernel-cache "$SLUICE_KERNEL_CACHE"
succeeds "names the tokenizer, shows segments and bits per byte" bash -c \
  "grep -q 'tokenizer</th><td>bpe, 300 ids' '$work/run/report.html' && grep -q 'Held-out text .* tokens\.' '$work/run/report.html' &&
   grep -qE 'per byte, last evaluation</th><td>[0-9.]+ bits per byte' '$work/run/report.html'"

# A temperature at which all ids are equally likely draws bytes of no character.
succeeds "generate" "$sluice" generate "$work/m.sla" --weights "$work/run" --prompt "the" -n 100 --temperature 1000 --seed 1
cp "$work/out" "$work/generated.txt"
succeeds "writes UTF-8" python3 -c 'import sys; open(sys.argv[1], encoding="utf-8").read()' "$work/generated.txt"
succeeds "generate as JSON" "$sluice" generate "$work/m.sla" --weights "$work/run" --prompt "the" -n 100 --temperature 1000 --seed 1 --json
cp "$work/out" "$work/generated.json"
holds "has the bytes" 'bytes.fromhex(f[0]["hex"]).decode(errors="replace") != "" and "\ufffd" in f[0]["text"]' "$work/generated.json"
succeeds "beam search" "$sluice" generate "$work/m.sla" --weights "$work/run" --prompt "the" --beam 3 --max-tokens 9 --stop $'\n' --json
cp "$work/out" "$work/beam.json"
holds "writes text" 'len(f[0]["text"]) > 1 and "hex" not in f[0] and f[0]["score"] < 0' "$work/beam.json"

# Weights have the hash of their tokenizer.
bare=$work/bare.safetensors
cp "$work/run/checkpoints/10/weights.safetensors" "$bare"
weights=$bare exits 2 "weights without their tokenizer" read_run eval
reports "name its hash" "held\.txt: expected a tokenizer for this text, that of the weights \(hash $(hash_of "$work/text.tok")\), found none"
weights=$bare exits 2 "weights with another tokenizer" read_run eval --tokenizer "$work/other.tok" --per-token "$work/none"
reports "name both" "$hashes; give the tokenizer that they were trained with"
exits 2 "a run with another tokenizer" read_run boundaries --tokenizer "$work/other.tok"
reports "likewise" "$hashes; leave --tokenizer out, as the run has its own"
exits 2 "a prompt of them" "$sluice" generate "$work/m.sla" --weights "$bare" --prompt the
reports "needs it too" 'expected the tokenizer of the weights \(hash'
weights=$bare succeeds "weights with a run's tokenizer" read_run eval --json --tokenizer "$work/run"
cp "$work/out" "$work/bare.json"
holds "have the same result" 'f[0]["nats"] == f[1]["nats"] and f[0]["bits_per_byte"] == f[1]["bits_per_byte"]' "$work/bare.json" "$work/eval.json"
weights=$bare succeeds "weights and ids" "$sluice" eval "$work/m.sla" --weights "$bare" --data "$work/ids.npy"

# A run from a run's weights takes its tokenizer; a resumed run does not need the original file.
succeeds "train from a run" train --data "$work/text.txt" --weights "$work/run" --steps 2 --out "$work/further"
succeeds "has its tokenizer" cmp "$work/text.tok" "$work/further/tokenizer.tok"
exits 2 "train with another run's tokenizer" train --data "$work/text.txt" --weights "$work/run" --tokenizer "$work/other.tok" --out "$work/none"
reports "is refused" "$hashes; leave --tokenizer out"
head -c 500 "$work/text.tok" > "$work/cut.tok"
exits 2 "train with half a tokenizer" train --data "$work/text.txt" --tokenizer "$work/cut.tok" --out "$work/none"
reports "is refused too" 'cut\.tok: expected a tokenizer, found one that is cut short; copy it again'
succeeds "and nothing was written" test ! -e "$work/none"
succeeds "train in one go" train --tokenizer "$work/text.tok" --data "$work/text.txt" --steps 14 --out "$work/whole"
mv "$work/text.tok" "$work/moved.tok"
rm -r "$XDG_CACHE_HOME/sluice/tokens"
exits 2 "resume with another tokenizer" "$sluice" train --resume "$work/run" --steps 14 --tokenizer "$work/other.tok"
reports "is refused" 'the tokenizer of the weights'
succeeds "resume without the original tokenizer" "$sluice" train --resume "$work/run" --steps 14
succeeds "is bitwise the same run" cmp "$work/run/checkpoints/14/weights.safetensors" "$work/whole/checkpoints/14/weights.safetensors"

# The cache of ids: a changed text is encoded again, and the folder is bounded.
succeeds "two texts are cached" test "$(count_ids)" = 2
echo more >> "$work/held.txt"
succeeds "eval of a changed text" read_run eval --json
cp "$work/out" "$work/changed.json"
holds "reads its bytes" 'f[0]["bytes"] == f[1]["bytes"] + 5' "$work/changed.json" "$work/eval.json"
succeeds "its ids are cached too" test "$(count_ids)" = 3
succeeds "eval with a small cache" env SLUICE_TOKEN_CACHE_SIZE=1 "$sluice" eval "$work/m.sla" --weights "$work/run" --data "$work/held.txt"
succeeds "removes the others" test "$(count_ids)" = 0
exits 2 "a size of the cache that is none" env SLUICE_TOKEN_CACHE_SIZE=few "$sluice" eval "$work/m.sla" --weights "$work/run" --data "$work/held.txt"
reports "is refused" 'SLUICE_TOKEN_CACHE_SIZE: expected a size such as 512MiB'

# A text as numbers of 16 bits, which a large vocabulary permits.
succeeds "compile 50257 ids" "$sluice" compile "$work/spec.json" --set vocabulary=50257 --set width=32 -t "$targets" -o "$work/large.sla"
succeeds "inspect" "$sluice" inspect "$work/large.sla" --json
cp "$work/out" "$work/inspect.json"
cat > "$work/measure.py" << 'MEASURE'
import json, resource, subprocess, sys
subprocess.run(sys.argv[2:], check=True)
found, expected = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, json.load(open(sys.argv[1]))["memory"]["process_bytes"]
assert found <= expected, "expected at most %d bytes of memory, found %d" % (expected, found)
MEASURE
measure() { python3 "$work/measure.py" "$work/inspect.json" "$@"; }
succeeds "training has the predicted memory" measure "$sluice" train "$work/large.sla" --data "uint16:$work/text.txt" --steps 2 --out "$work/large"
reports "notes what looks like a text" 'note: uint16:.*text\.txt looks like a text, whose bytes are read in pairs'
succeeds "resuming too" measure "$sluice" train --resume "$work/large" --steps 3
finish

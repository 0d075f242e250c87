#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The complete pipeline for every model of models/tiny: check, compile, inspect, train, resume, evaluate, generate,
# report.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

write_text "$work/training.txt" 200000 1
write_text "$work/held-out.txt" 5000 2

# Two metrics files agree bitwise on everything independent of the machine's speed, at every step in both.
same_curves='(lambda a, b: 40 in a and 40 in b and all(a[n] == b[n] for n in a.keys() & b.keys()))(
  *({m["step"]: (m["loss"], m["grad_norm"], m["learning_rate"]) for m in run} for run in f))'

# trains NAME ARTIFACT RUN STEPS FLAGS...
trains() {
  local name=$1 artifact=$2 run=$3 steps=$4
  shift 4
  succeeds "$name" "$sluice" train "$artifact" --data "$work/training.txt" --out "$run" --steps "$steps" "$@"
}

for spec in "$root"/models/tiny/*.json; do
  grep -qE '"inputs"|"relative"' "$spec" && continue # inputs.sh; sluice-golden-test, as those take 17 s to compile
  name=$(basename "$spec" .json)
  artifact=$work/$name.sla
  run=$work/$name-run

  succeeds "$name: check" "$sluice" check "$spec"
  succeeds "$name: check --json" "$sluice" check "$spec" --json
  cp "$work/out" "$work/check.json"
  holds "$name: the verdict is proved" 'f[0]["verdict"] == "proved"' "$work/check.json"
  succeeds "$name: compile" "$sluice" compile "$spec" -o "$artifact"
  succeeds "$name: inspect" "$sluice" inspect "$artifact" --json
  cp "$work/out" "$work/inspect.json"
  holds "$name: parameters are the sum of the tensors" \
    'f[0]["parameters"] == sum(math.prod(t["shape"]) for t in f[0]["tensors"]) > 0' "$work/inspect.json"
  cp "$artifact" "$work/again.sla"
  succeeds "$name: compile again" "$sluice" compile "$spec" -o "$artifact"
  succeeds "$name: compiling twice gives the same bytes" cmp "$artifact" "$work/again.sla"

  trains "$name: train" "$artifact" "$run" 40
  holds "$name: the loss falls" \
    'f[0][-1]["step"] == 40 and f[0][-1]["loss"] < 0.9 * f[0][0]["loss"]' "$run/metrics.jsonl"
  trains "$name: train 20 steps on one thread" "$artifact" "$run-resumed" 20 --threads 1
  trains "$name: resume to 40 steps on two threads" "$artifact" "$run-resumed" 40 --threads 2 --resume
  holds "$name: the result does not depend on resuming and threads" "$same_curves" "$run/metrics.jsonl" "$run-resumed/metrics.jsonl"

  succeeds "$name: eval" "$sluice" eval "$artifact" --weights "$run" --data "$work/held-out.txt" --json
  cp "$work/out" "$work/eval.json"
  if grep -q '"op": "contrast"' "$spec"; then
    continue # no token is predicted: losses.sh
  fi
  holds "$name: bits per byte are below 8" '0 < f[0]["bits_per_byte"] < 8' "$work/eval.json"
  generate=("$sluice" generate "$artifact" --weights "$run" --prompt "the water of the old lake" --tokens 24)
  succeeds "$name: generate" "${generate[@]}"
  succeeds "$name: generate writes 24 bytes or more" test "$(wc -c < "$work/out")" -ge 24
done

succeeds "report" "$sluice" report "$run"
succeeds "the report shows what a row reads" grep -q 'class="band"' "$run/report.html"
succeeds "and reports the proof" grep -q '>proved causal' "$run/report.html"
analyze=("$sluice" analyze)
weights=("$artifact" --weights "$run" --data "$work/held-out.txt" --json)
exits 2 "analyze: a negative number of windows" "${analyze[@]}" context "${weights[@]}" --windows -1
cp "$work/err" "$work/refused"
succeeds "the message says so" grep -q -- '--windows: expected a number of at least 0, found -1$' "$work/refused"
succeeds "analyze context" "${analyze[@]}" context "${weights[@]}" --windows 8 --picture "$work/context.html"
cp "$work/out" "$work/context.json"
holds "a trained model reads the previous token" 'f[0]["windows"] == 8 and f[0]["places"][0]["increase"] > 0' "$work/context.json"
succeeds "and the report has a chart" grep -q '<polyline' "$work/context.html"
succeeds "analyze frequency" "${analyze[@]}" frequency "${weights[@]}" --train "$work/training.txt" --bins 3
cp "$work/out" "$work/frequency.json"
holds "the bins contain every scored token" \
  'abs(sum(b["bits"] * b["scored"] for b in f[0]["bins"] if b["scored"]) / sum(b["scored"] for b in f[0]["bins"]) - f[1]["bits_per_token"]) < 1e-6' \
  "$work/frequency.json" "$work/eval.json"
exits 2 "bins of a context are rejected" "${analyze[@]}" context "${weights[@]}" --bins 3
cp "$work/err" "$work/bins.err"
succeeds "and the message names the reason" grep -q 'expected --bins with the analysis frequency alone, found context' "$work/bins.err"
succeeds "analyze samples" "${analyze[@]}" samples "${weights[@]}" --train "$work/training.txt" --prompts 2 --num 2 --tokens 32 --picture "$work/samples.html"
cp "$work/out" "$work/samples.json"
succeeds "and a page shows both" grep -q 'perplexity of a word, reference' "$work/samples.html"
holds "samples and their text contain words" 'f[0]["written"]["words"] > 0 and f[0]["reference"]["word_perplexity"] >= 1' "$work/samples.json"
exits 2 "an odd window is rejected" "${analyze[@]}" context "${weights[@]}" --length 7
coarse=stages.1.inside.5
alike=("$work/hourglass.sla" --weights "$work/hourglass-run" --data "$work/held-out.txt")
succeeds "rows of a stream" "$sluice" logits "${alike[@]}" --stream "$coarse" -o "$work/rows.npy"
cp "$work/err" "$work/said"
succeeds "one row for several tokens" grep -Eq 'one for every [0-9]+ tokens, to ' "$work/said"
succeeds "analyze neighbours" "${analyze[@]}" neighbours "${alike[@]}" --json --stream "$coarse" --queries 3 --nearest 4 --picture "$work/alike.html"
cp "$work/out" "$work/alike.json"
cat > "$work/alike.py" << 'PYTHON'
import ast, json, math, struct, sys
data = open(sys.argv[1], "rb").read()
size = struct.unpack("<H", data[8:10])[0]
count, width = ast.literal_eval(data[10:10 + size].decode())["shape"]
rows = [struct.unpack(f"<{width}f", data[10 + size + 4 * width * i:10 + size + 4 * width * (i + 1)]) for i in range(count)]
result = json.load(open(sys.argv[2]))
factor, text = result["factor"], open(sys.argv[3], "rb").read()
assert count == (len(text) // 64 * (64 // factor) + -(-(len(text) % 64) // factor)) and result["groups"] == len(text) // factor
unit = [[x / math.sqrt(sum(y * y for y in row)) for x in row] for row in rows[:result["groups"]]]
for query in result["queries"]:
    at = query["group"]["start"] // factor
    close = sorted((-sum(a * b for a, b in zip(unit[at], row)), i) for i, row in enumerate(unit) if i != at)[:4]
    for (distance, i), group in zip(close, query["nearest"]):
        assert abs(group["similarity"] + distance) < 1e-5
        assert group["text"].encode() == text[group["start"]:group["start"] + factor]
PYTHON
succeeds "neighbours match the rows" python3 "$work/alike.py" "$work/rows.npy" "$work/alike.json" "$work/held-out.txt"
exits 2 "an unknown stream" "${analyze[@]}" neighbours "${alike[@]}" --stream fine
exits 2 "neighbours of an unknown stream" "${analyze[@]}" neighbours "${alike[@]}"
succeeds "ngram" "$sluice" ngram --order 2 3 --train "$work/training.txt" --test "$work/held-out.txt" --json
cp "$work/out" "$work/ngram.json"
holds "a trigram beats a bigram" \
  '0 < f[0]["orders"][1]["bits_per_byte"] < f[0]["orders"][0]["bits_per_byte"] < 8' "$work/ngram.json"

# Tokenizers: a text of arbitrary bytes is encoded and decoded; the model inside is exported and imported without a change.
printf 'a  <0x0A>\xff\xe2\x96\x81\0<s>\r\n' | cat - "$work/held-out.txt" > "$work/bytes"
succeeds "a tokenizer is trained" "$sluice" tokenizer --data "$work/training.txt" "$work/held-out.txt" --vocabulary 300 -o "$work/text.tok" --json
cp "$work/out" "$work/tokenizer.json"
holds "it has as many ids as asked" 'f[0]["kind"] == "bpe" and f[0]["vocabulary"] == 300' "$work/tokenizer.json"
tokenizer=("$sluice" tokenizer --tokenizer "$work/text.tok")
succeeds "a text is encoded" "${tokenizer[@]}" --encode "$work/bytes" -o "$work/ids.npy" --json
cp "$work/out" "$work/encoded.json"
holds "ids are fewer than bytes" '3 * f[0]["tokens"] < 2 * f[0]["bytes"]' "$work/encoded.json"
succeeds "ids are decoded" "${tokenizer[@]}" --decode "$work/ids.npy" -o "$work/decoded"
succeeds "to the same bytes" cmp "$work/bytes" "$work/decoded"
succeeds "its model is exported" "${tokenizer[@]}" --export "$work/text.model"
succeeds "and imported" "$sluice" tokenizer --import "$work/text.model" -o "$work/again.tok"
succeeds "without a change" cmp "$work/text.tok" "$work/again.tok"
exits 2 "a model is no tokenizer" "$sluice" tokenizer --tokenizer "$work/text.model"
head -c 3000 "$work/text.tok" > "$work/cut.tok"
exits 2 "a tokenizer that is cut short" "$sluice" tokenizer --tokenizer "$work/cut.tok"
exits 2 "a tokenizer for a text" "$sluice" tokenizer --data "$work/text.tok" --vocabulary 300 -o "$work/none.tok"
exits 2 "a tokenizer over its text" "$sluice" tokenizer --data "$work/bytes" --vocabulary 300 -o "$work/bytes"
exits 2 "a tokenizer of no size" "$sluice" tokenizer --data "$work/bytes" -o "$work/none.tok"
exits 2 "a tokenizer of half the characters" "$sluice" tokenizer --data "$work/bytes" --vocabulary 300 --coverage 0.5 -o "$work/none.tok"
exits 2 "a tokenizer of nothing" "$sluice" tokenizer -o "$work/none.tok"
finish

#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# BLEU and ROUGE of files and of the lines that a model generates; rejected input.
# shellcheck disable=SC2317 # succeeds and exits call these functions
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

targets=cpu-avx2
reports() {
  if grep -qE -- "$2" "$work/err"; then pass "$1"; else fail "$1" "expected '$2' in:" "$(tail -n 5 "$work/err")"; fi
}
# rejects NAME PATTERN ARGUMENTS...
rejects() {
  exits 2 "$1" "$sluice" "${@:3}"
  reports "$1: message" "$2"
}

# Corpora and the values of sacrebleu and rouge-score: with bytes that are not UTF-8, and with sentences and two references.
python3 - "$root/test/unit/Runtime/Inputs/metrics.json" "$work" << 'PYTHON'
import json, sys
recorded = json.load(open(sys.argv[1], encoding="utf-8"))["corpora"]
choices = {"bytes": next(c for c in recorded if c.get("hex")),
           "texts": next(c for c in recorded if c["sentences"] == "<q>" and len(c["references"]) == 2)}
for name, corpus in choices.items():
    for i, lines in enumerate([corpus["texts"], *corpus["references"]]):
        data = [bytes.fromhex(line) if "hex" in corpus else line.encode() for line in lines]
        open(f"{sys.argv[2]}/{name}.{i}", "wb").write(b"".join(line + b"\n" for line in data))
    json.dump(corpus["values"], open(f"{sys.argv[2]}/{name}.json", "w"))
PYTHON
for name in bytes texts; do
  for tokenize in 13a none; do
    succeeds "$name: BLEU, $tokenize" "$sluice" score "$work/$name.0" "$work/$name".[12] --tokenize "$tokenize" --json
    cp "$work/out" "$work/score.json"
    holds "is the value of sacrebleu" "(abs(f[0]['bleu'] - f[1]['bleu-$tokenize']) < 1e-6 and f[0]['references'] == 2 and
      [f[0]['tokens'], f[0]['reference_tokens']] == f[1]['tokens-$tokenize'] and f[0]['tokenize'] == '$tokenize')" "$work/score.json" "$work/$name.json"
  done
done
succeeds "ROUGE" "$sluice" score "$work/texts.0" "$work"/texts.[12] --metric rouge --sentences '<q>' --json
cp "$work/out" "$work/score.json"
holds "has the values of rouge-score" 'all(abs(found - expected) < 1e-6 for name in ("rouge1", "rouge2", "rougeLsum")
  for found, expected in zip((f[0]["precision"][name], f[0]["recall"][name], f[0][name]), f[1][name])) and f[0]["sentences"] == "<q>"' \
  "$work/score.json" "$work/texts.json"
succeeds "bytes that are not UTF-8" "$sluice" score "$work/bytes.0" "$work"/bytes.1
reports "are noted" 'note: .*bytes\.0:1: byte [0-9]+ is not UTF-8, and so in [0-9]+ of 10 lines; each such byte is a character of its own'

printf 'the water runs down, to it\n\nback\n' > "$work/text"
printf 'the water runs down to it\nnever\nback' > "$work/reference"
succeeds "people read one line" "$sluice" score "$work/text" "$work/reference"
cp "$work/out" "$work/plain"
succeeds "of BLEU" grep -qxE 'BLEU 49\.1450 \(precisions 87\.5 .*, 8 tokens of 8; 3 lines, references of each: 1\)' "$work/plain"
gzip -k "$work/text"
compressed() { "$sluice" score - "$work/reference" < "$work/text.gz"; }
succeeds "compressed, from the standard input" compressed
cp "$work/out" "$work/unpacked"
succeeds "is the same" cmp "$work/unpacked" "$work/plain"
succeeds "the text itself" "$sluice" score "$work/text" "$work/text" --metric rouge
cp "$work/out" "$work/plain"
succeeds "has ROUGE 1, but for its empty line" grep -q '^ROUGE-1 0\.6667, ROUGE-2 0\.3333, rougeLsum 0\.6667 (means of F1; 3 lines' "$work/plain"

printf 'one\ntwo\n' > "$work/two"
: > "$work/empty"
rejects "other numbers of lines" 'two: expected as many lines as .*/text has, 3, found 2;' score "$work/text" "$work/reference" "$work/two"
rejects "a missing file" 'missing: ' score "$work/missing" "$work/reference"
rejects "a missing reference" 'missing: ' score "$work/text" "$work/missing"
rejects "an empty file" 'empty: expected at least 1 byte \(a line\), found 0' score "$work/empty" "$work/empty"
rejects "a directory" 'expected a data file, found a directory' score "$work/text" "$work"
rejects "weights" 'found .*safetensors' score "$work/text" "$root/test/golden/nanogpt/logits.safetensors"
rejects "no reference" 'sluice score: expected REFERENCE, found none; write it' score "$work/text"
rejects "another metric" '--metric: expected one of bleu, rouge, found "blue"; did you mean bleu\?' score "$work/text" "$work/text" --metric blue
rejects "sentences of BLEU" 'expected --metric rouge with --sentences, found --metric bleu; ' score "$work/text" "$work/text" --sentences '<q>'
rejects "tokens of ROUGE" 'expected --metric bleu with --tokenize, found --metric rouge' score "$work/text" "$work/text" --metric rouge --tokenize 13a
rejects "an empty text between sentences" '--sentences: expected a text inside a line' score "$work/text" "$work/text" --metric rouge --sentences ''
rejects "a line end between sentences" 'found "\\u000a"; a line is one text' score "$work/text" "$work/text" --metric rouge --sentences $'\n'

# Lines that a model with a tokenizer generates.
python3 - "$work" << 'PYTHON'
import random, sys
draw = random.Random(3)
lines = [" ".join(draw.choice("abcdefgh") * 2 for _ in range(draw.randint(4, 5))) for _ in range(400)]
open(f"{sys.argv[1]}/train.txt", "w").write("\n".join(lines) + "\n")
open(f"{sys.argv[1]}/source.txt", "w").write("\n".join(lines[:20]) + "\n")
PYTHON
succeeds "a tokenizer" "$sluice" tokenizer --data "$work/train.txt" --vocabulary 280 -o "$work/lines.tok"
succeeds "compile" "$sluice" compile "$root/models/tiny/copy.json" --set vocabulary=300 -t "$targets" -o "$work/copy.sla"
succeeds "train" "$sluice" train "$work/copy.sla" --data "$work/train.txt" --input "source=$work/train.txt" --tokenizer "$work/lines.tok" \
  --cpu-target "$targets" --steps 60 --out "$work/run"
model=("$work/copy.sla" --cpu-target "$targets" --weights "$work/run" --input "source=$work/source.txt")
succeeds "generate" "$sluice" generate "${model[@]}" --temperature 0 --json
python3 -c 'import json, sys
for line in sys.stdin: print(json.loads(line)["text"])' < "$work/out" > "$work/generated.txt"
sed 's/[^ ]* [^ ]*$/xx/' "$work/generated.txt" > "$work/changed.txt"
for metric in bleu rouge; do
  succeeds "$metric of the file" "$sluice" score "$work/generated.txt" "$work/changed.txt" "$work/source.txt" --metric "$metric" --json
  cp "$work/out" "$work/score.json"
  succeeds "$metric of the model" "$sluice" eval "${model[@]}" --metric "$metric" --reference "$work/changed.txt" "$work/source.txt" --json
  cp "$work/out" "$work/eval.json"
  holds "is the same" '(all(f[1][key] == value for key, value in f[0].items()) and f[1]["proof"] == "proved" and "/60/" in f[1]["weights"] and
    (0 < f[0]["bleu"] < 100 if f[0]["metric"] == "bleu" else 0 < f[0]["rouge2"] < 1))' "$work/score.json" "$work/eval.json"
done
beam=(--beam 3 --length-penalty 1 --no-repeat 2 --max-tokens 9)
succeeds "generate by beam search" "$sluice" generate "${model[@]}" "${beam[@]}" --stop $'\n' --json
python3 -c 'import json, sys
for line in sys.stdin: print(json.loads(line)["text"])' < "$work/out" > "$work/beam.txt"
exits 1 "the lines are other ones" cmp "$work/beam.txt" "$work/generated.txt"
succeeds "their BLEU" "$sluice" score "$work/beam.txt" "$work/changed.txt" --json
cp "$work/out" "$work/score.json"
succeeds "BLEU of the model by beam search" "$sluice" eval "${model[@]}" "${beam[@]}" --metric bleu --reference "$work/changed.txt" --json
cp "$work/out" "$work/eval.json"
holds "is the same" 'all(f[1][key] == value for key, value in f[0].items()) and f[0]["bleu"] > 0' "$work/score.json" "$work/eval.json"
evaluate=(eval "${model[@]}")
rejects "a beam without a metric" 'expected --metric with --beam' "${evaluate[@]}" --data "$work/source.txt" --beam 3
rejects "a minimum without room for the end" '--min-tokens: expected fewer than the maximum of 4 tokens' "${evaluate[@]}" --metric bleu \
  --reference "$work/changed.txt" --beam 3 --max-tokens 4 --min-tokens 4
rejects "a metric without references" 'expected --reference FILE with --metric, found none' "${evaluate[@]}" --metric bleu
rejects "references without a metric" 'expected --metric with --reference, found none' "${evaluate[@]}" --reference "$work/source.txt"
rejects "a metric with --data" 'expected no --data with --metric' "${evaluate[@]}" --metric bleu --reference "$work/source.txt" --data "$work/source.txt"
rejects "tokens without a metric" 'expected --metric bleu with --tokenize, found none' "${evaluate[@]}" --data "$work/source.txt" --tokenize none
rejects "references of other lines" 'two: expected as many lines as .*source\.txt has, 20, found 2' "${evaluate[@]}" --metric bleu --reference "$work/two"
rejects "neither" 'sluice eval: expected --data, found none' "${evaluate[@]}"
finish

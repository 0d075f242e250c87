#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Segments ended by whitespace, and predicted ones: trained, evaluated with the shortening factor, generated; too many end the run.
# shellcheck disable=SC2317 # succeeds and exits call these functions
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

write_text "$work/training.txt" 60000 1
write_text "$work/held-out.txt" 3000 2
# spec FILE BOUNDARIES: a model of dynamic pooling with these keys of its boundaries stage.
spec() {
  cat > "$1" << JSON
{ "sluice": 1, "vocabulary": 256, "context": 64, "batch": 4, "width": 32,
  "defaults": { "heads": 4, "activation": "gelu", "relative": "xl_shared", "placement": "post" },
  "stages": [
    { "op": "embedding" }, { "op": "layer", "to": "fine" },
    { "op": "boundaries", "name": "words", $2 },
    { "op": "shorten", "segments": "words", "to": "g" }, { "op": "shift", "by": 1, "start": "null" },
    { "op": "layer" },
    { "op": "upsample", "segments": "words", "by": 0 }, { "op": "add", "with": "fine" },
    { "op": "layer" }, { "op": "head" } ],
  "training": { "learning_rate": 3e-3, "schedule": { "kind": "constant", "warmup": 2 } } }
JSON
}

spec "$work/words.json" '"rule": "whitespace", "capacity": 0.5'
spec "$work/drawn.json" '"predictor": 16, "prior": 0.2'
for name in words drawn; do
  succeeds "$name: compile" "$sluice" compile "$work/$name.json" -o "$work/$name.sla"
  succeeds "$name: train" "$sluice" train "$work/$name.sla" --data "$work/training.txt" --out "$work/$name" --steps 12
  holds "$name: the loss falls" 'f[0][-1]["loss"] < f[0][0]["loss"] - 0.2' "$work/$name/metrics.jsonl"
  succeeds "$name: eval" "$sluice" eval "$work/$name.sla" --weights "$work/$name" --data "$work/held-out.txt" --window 64 --stride 64 --json
  cp "$work/out" "$work/$name.eval.json"
done

# Five jumps in 25 updates: the sixth follows the first jump. The loss is the loss of k bits of 64.
succeeds "jumps: compile" "$sluice" compile "$work/drawn.json" -o "$work/jumps.sla" --set batch=1 \
  --set 'stages.2.prior={"from": 0.5, "to": 0.2, "steps": 25, "jumps": 5}'
succeeds "jumps: train" "$sluice" train "$work/jumps.sla" --data "$work/training.txt" --out "$work/jumps" --steps 6
cost='(lambda k, a: -(math.lgamma(65) - math.lgamma(k + 1) - math.lgamma(65 - k) + k * math.log(a) + (64 - k) * math.log(1 - a)) / 64)'
for jump in 5:0.5 6:0.44; do
  holds "jumps: the prior of update ${jump%:*} is ${jump#*:}" \
    "(lambda l: abs(l['words.prior'] - $cost(round(64 * l['words.share']), ${jump#*:})) < 1e-5)(f[0][${jump%:*} - 1]['losses'])" "$work/jumps/metrics.jsonl"
done
python3 - "$work/held-out.txt" > "$work/share.json" << 'PYTHON'
import sys
text = open(sys.argv[1]).read()[:-1]
print(text.count(" ") / len(text))
PYTHON
holds "the share of boundaries matches the share of spaces" 'abs(f[0]["losses"]["words.share"] - f[1]) < 1e-6' "$work/words.eval.json" "$work/share.json"
holds "the prior is reported by name" 'f[0]["losses"]["words.prior"] > 0' "$work/drawn.eval.json"
succeeds "eval prints the shortening factor" "$sluice" eval "$work/words.sla" --weights "$work/words" --data "$work/held-out.txt"
cp "$work/out" "$work/printed"
succeeds "as tokens per segment" grep -Eq 'shortening +[3-9]\.[0-9]+ tokens a segment of words' "$work/printed"
holds "so does eval --json" 'abs(f[0]["shortening_factor"]["words"] * f[0]["losses"]["words.share"] - 1) < 1e-9' "$work/words.eval.json"
# During training: the measured factor in each line and in the metrics, then in reports, with boundaries over held-out
# text.
more() { "$sluice" train "$work/$1.sla" --data "$work/training.txt" --eval-data "$work/held-out.txt" --out "$work/$1" --steps 14 --resume; }
for name in words drawn; do
  succeeds "$name: train on, with held-out text" more "$name"
  cat "$work/out" "$work/err" > "$work/$name.log"
  holds "$name: the factor is the share's inverse" \
    'all(abs(m["shortening_factor"]["words"] * m["losses"]["words.share"] - 1) < 1e-6 for m in f[0])' "$work/$name/metrics.jsonl"
  succeeds "$name: report" "$sluice" report "$work/$name"
  succeeds "$name: has a curve of it" grep -q '>words, training</li>' "$work/$name/report.html"
done
succeeds "lines of training have the factor" grep -Eq 'words [3-9]\.[0-9]+ tokens/segment.*held out: .*words [3-9]\.[0-9]+ tokens/segment$' "$work/words.log"
holds "held-out text has its own" 'abs(f[0][-1]["eval_shortening_factor"]["words"] * f[0][-1]["eval_losses"]["words.share"] - 1) < 1e-9' "$work/words/metrics.jsonl"
cat > "$work/shown.py" << 'PYTHON'
import html, re, sys
page, text = open(sys.argv[1]).read(), open(sys.argv[2]).read()
part = page[page.index("<h2>Segments</h2>"):]
shown = html.unescape(re.search("<pre>(.*?)</pre>", part, re.S)[1].replace('<b class="cut">|</b>', "|"))
assert shown == text[:1000].replace(" ", " |"), shown
counts = re.findall(r"<tr><th>(\d+)</th><td>(\d+)</td>", part.split("tokens of a segment")[1].split("</table>")[0])
lengths = [len(word) + 1 for word in text.split(" ")[:-1]]
assert {int(a): int(b) for a, b in counts} == {n: lengths.count(n) for n in range(1, max(lengths) + 1)}, counts
assert f"<td>{len(lengths)} in {len(text)} tokens</td>" in part
assert "probability" not in part
PYTHON
succeeds "the report cuts the held-out text after spaces, and counts segments" python3 "$work/shown.py" "$work/words/report.html" "$work/held-out.txt"
succeeds "a predictor's probabilities are counted" grep -q 'probability of a boundary' "$work/drawn/report.html"
succeeds "boundaries of fewer tokens" "$sluice" report "$work/words" --segment-tokens 100 -o "$work/fewer.html"
succeeds "are the first boundaries" grep -q 'held-out.txt, its first 100 bytes' "$work/fewer.html"
succeeds "no tokens" "$sluice" report "$work/words" --segment-tokens 0 -o "$work/none.html"
exits 1 "no segments" grep -q '<h2>Segments' "$work/none.html"
succeeds "two runs" "$sluice" report "$work/words" "$work/drawn" -o "$work/both.html"
succeeds "have their factors in one chart" grep -q '>Tokens a segment, training<' "$work/both.html"
succeeds "and next to one another" grep -Eq 'tokens a segment of words, training</th><td>[0-9.]+<small>mean of the last 14 logged steps</small></td><td>[0-9.]+<' "$work/both.html"
mv "$work/held-out.txt" "$work/moved.txt"
succeeds "report without the held-out text" "$sluice" report "$work/words"
succeeds "the message names the missing text" grep -q "expected the run's held-out text, found no file" "$work/words/report.html"
succeeds "a sample" "$sluice" train "$work/words.sla" --data "$work/training.txt" --out "$work/words" --steps 15 --resume --sample-prompt 'a <b> c'
succeeds "report with a sample" "$sluice" report "$work/words"
succeeds "cuts that" grep -q '<p>The sample of step 15[.,]' "$work/words/report.html"
succeeds "safely" grep -q '<pre>a <b class="cut">|</b>&lt;b&gt; <b class="cut">|</b>c' "$work/words/report.html"
mv "$work/moved.txt" "$work/held-out.txt"
printf 'x' >> "$work/held-out.txt"
succeeds "report with another text" "$sluice" report "$work/words"
succeeds "the message reports the change" grep -q "held-out text of 3000 bytes, found 3001 bytes; it has changed, or holds images" "$work/words/report.html"
truncate -s 3000 "$work/held-out.txt"
succeeds "generate" "$sluice" generate "$work/words.sla" --weights "$work/words" --prompt "the water" --tokens 20
succeeds "boundaries of a rule" "$sluice" boundaries "$work/words.sla" --weights "$work/words" --data "$work/held-out.txt" --tokens 90
tr '\n' '\r' < "$work/out" | cut -d "$(printf '\r')" -f 1 > "$work/marked"
succeeds "are after spaces" cmp "$work/marked" <(head -c 90 "$work/held-out.txt" | sed 's/ / |/g'; echo)
last=$(cat "$work/words/latest")
succeeds "boundaries of a step" "$sluice" boundaries "$work/words.sla" --weights "$work/words" --step "$last" --data "$work/held-out.txt" --tokens 90
tr '\n' '\r' < "$work/out" | cut -d "$(printf '\r')" -f 1 > "$work/marked-of-step"
succeeds "are the boundaries of its checkpoint" cmp "$work/marked" "$work/marked-of-step"
exits 2 "boundaries of a step without a checkpoint" "$sluice" boundaries "$work/words.sla" --weights "$work/words" --step 9999 --data "$work/held-out.txt"
exits 2 "boundaries: a negative number of tokens" "$sluice" boundaries "$work/words.sla" --weights "$work/words" --data "$work/held-out.txt" --tokens -1
cp "$work/err" "$work/refused"
succeeds "the message says so" grep -q -- '--tokens: expected a number of tokens to print of at least 0, found -1$' "$work/refused"
exits 2 "boundaries on a GPU that the artifact has no code for" "$sluice" boundaries "$work/words.sla" --weights "$work/words" --data "$work/held-out.txt" --device emulator
succeeds "boundaries of a predictor" "$sluice" boundaries "$work/drawn.sla" --weights "$work/drawn" --data "$work/held-out.txt" --tokens 3000 --json
cp "$work/out" "$work/boundaries.json"
holds "each token has a probability, each boundary ends a segment" \
  'sum(f[0]["probabilities"]) == f[0]["tokens"] == 3000 and sum(l["segments"] for l in f[0]["lengths"]) == f[0]["boundaries"]' "$work/boundaries.json"
holds "probabilities above a half are boundaries" 'sum(f[0]["probabilities"][5:]) == f[0]["boundaries"] == f[0]["text"].count("|")' \
  "$work/boundaries.json"
exits 2 "boundaries of an unknown name" "$sluice" boundaries "$work/words.sla" --weights "$work/words" --data "$work/held-out.txt" --name other
succeeds "bench on forced segments" "$sluice" bench "$work/words.sla" --steps 1 --forced-factor 4 --generate -k --positions 8-23 --json
cp "$work/out" "$work/forced.json"
holds "and runs their stages in one step of four" 'any(k["launches"] == 0.25 for k in f[0]["step_kernels"])' "$work/forced.json"
holds "has their length" 'f[0]["shortening_factor"]["words"] == 4' "$work/forced.json"
succeeds "bench on a file's bytes, forced" "$sluice" bench "$work/words.sla" --steps 1 --data "$work/held-out.txt" --forced-factor 8 --json
holds "longer segments cost less" 'f[0]["shortening_factor"]["words"] == 8 and f[0]["step_gflop"] < f[1]["step_gflop"]' \
  "$work/out" "$work/forced.json"
exits 2 "a predictor ignores spaces" "$sluice" bench "$work/drawn.sla" --steps 1 --forced-factor 4
exits 1 "forced segments of one token are too many" "$sluice" bench "$work/words.sla" --steps 1 --forced-factor 1
exits 2 "forced segments longer than the context" "$sluice" bench "$work/words.sla" --steps 1 --forced-factor 65
sed -e 's/{ "op": "shift".*/{ "op": "boundaries", "name": "twos", "rule": "every", "factor": 2 }, { "op": "shorten", "segments": "twos" },/' \
  -e 's/{ "op": "upsample", "segments": "words", "by": 0 }/{ "op": "upsample", "segments": "twos" }, { "op": "upsample", "segments": "words" }/' \
  "$work/words.json" > "$work/nested.json"
succeeds "nested: compile" "$sluice" compile "$work/nested.json" -t cpu-avx2 -o "$work/nested.sla"
succeeds "nested: forced segments" "$sluice" bench "$work/nested.sla" --steps 1 --forced-factor 4 --json
holds "nested: of tokens, and of their segments" 'f[0]["shortening_factor"] == {"words": 4, "twos": 8}' "$work/out"
# Document ends end segments for any result of the predictor: here at spaces.
spec "$work/documents.json" '"predictor": 16, "prior": 0.2, "document_end": 32'
succeeds "documents: compile" "$sluice" compile "$work/documents.json" -t cpu-avx2 -o "$work/documents.sla"
succeeds "documents: train" "$sluice" train "$work/documents.sla" --data "$work/training.txt" --out "$work/documents" --steps 2
succeeds "documents: boundaries" "$sluice" boundaries "$work/documents.sla" --weights "$work/documents" --data "$work/held-out.txt" --tokens 3000 --json
holds "after each space" 'f[0]["text"].count(" ") == f[0]["text"].count(" |") > 100 and f[0]["boundaries"] == sum(f[0]["probabilities"][5:])' "$work/out"
tr ' ' '\n' < "$work/held-out.txt" | sed 's/./ /g' | tr '\n' ' ' > "$work/spaces.txt"
# A predictor that learns labels of a file, in either mode; evaluation and generation need no
# labels.
tr -c ' ' 0 < "$work/training.txt" | tr ' ' 1 > "$work/training.labels"
tr -c ' ' 0 < "$work/held-out.txt" | tr ' ' 1 > "$work/held-out.labels"
spec "$work/learned.json" '"rule": "labels", "predictor": 16, "mode": "reference-code"'
sed -i 's/"training": {/"training": { "order": "cyclic",/' "$work/learned.json"
succeeds "labels: compile" "$sluice" compile "$work/learned.json" -o "$work/learned.sla"
learn() { "$sluice" train "$work/learned.sla" --data "$work/training.txt" --save-every 6 "${@}"; }
succeeds "labels: train" learn --out "$work/learned" --steps 12 --labels "words=$work/training.labels" --eval-data "$work/held-out.txt" --sample-prompt "the"
holds "their loss falls, and held-out text needs none" \
  'f[0][-1]["losses"]["words.labels"] < f[0][0]["losses"]["words.labels"] - 0.05 and "words.labels" not in f[0][-1]["eval_losses"]' "$work/learned/metrics.jsonl"
succeeds "labels: half of a run" learn --out "$work/halved" --steps 6 --labels "words=$work/training.labels"
succeeds "labels: resumed" learn --out "$work/halved" --steps 12 --resume --labels "words=$work/training.labels"
succeeds "is the run, bit for bit" cmp "$work/learned/checkpoints/12/weights.safetensors" "$work/halved/checkpoints/12/weights.safetensors"
exits 2 "labels: training without labels" learn --out "$work/none" --steps 1
cp "$work/err" "$work/refused"
succeeds "are requested by name" grep -q 'expected --labels words=FILE' "$work/refused"
exits 2 "labels: of a different length" learn --out "$work/none" --steps 1 --labels "words=$work/held-out.labels"
exits 2 "labels: without a name" learn --out "$work/none" --steps 1 --labels "$work/training.labels"
cp "$work/err" "$work/refused"
succeeds "suggests an example with the name of the segments" grep -q 'NAME=FILE, the name of segments .* write it as in --labels words=text.labels' "$work/refused"
tr 01 10 < "$work/training.labels" > "$work/other.labels"
exits 2 "labels: different ones on a resume" learn --out "$work/halved" --steps 13 --resume --labels "words=$work/other.labels"
cp "$work/err" "$work/refused"
succeeds "and the message names them" grep -q 'expected the same training data .* give the same files of --data and --labels in the same order' "$work/refused"
exits 2 "labels: of an unknown name" learn --out "$work/none" --steps 1 --labels "other=$work/training.labels"
exits 2 "the order of the data is the same" learn --out "$work/halved" --steps 13 --resume --labels "words=$work/training.labels" --set training.order=cut
succeeds "labels: eval" "$sluice" eval "$work/learned.sla" --weights "$work/learned" --data "$work/held-out.txt" --labels "words=$work/held-out.labels" --json
holds "reports their loss if given" '0 < f[0]["losses"]["words.labels"] < 2' "$work/out"
succeeds "labels: bench" "$sluice" bench "$work/learned.sla" --steps 1 --data "$work/training.txt" --labels "words=$work/training.labels"
# Labels by spikes of a model's entropy, and by pieces.
head -c 200 "$work/held-out.txt" > "$work/short.txt"
succeeds "entropy: logits" "$sluice" logits "$work/words.sla" --weights "$work/words" --data "$work/short.txt" -o "$work/logits.npy"
for mode in paper reference-code; do
  succeeds "entropy: labels, $mode" python3 "$root/scripts/boundary_labels.py" entropy --mode "$mode" "$work/logits.npy"
  cp "$work/out" "$work/$mode.labels"
done
succeeds "entropy: the code's labels are one earlier" cmp <(cut -c 2-199 "$work/reference-code.labels") <(cut -c 3-200 "$work/paper.labels")
printf '%s\t%s\n' ▁the -1 ▁wat -3 er -2 ▁ -5 w -6 a -6 t -6 e -6 r -6 h -6 > "$work/pieces.vocab"
printf '%s\t%s\n' ▁abc -1 ▁de -1 ▁fg -1 > "$work/words.vocab"
printf 'water the  wét' > "$work/pieces.txt"
printf 'water\nthe éó wét ' > "$work/lines.txt"
printf 'abc de fg' > "$work/words.txt"
ends_of() { python3 "$root/scripts/boundary_labels.py" unigram --vocabulary "$work/$1.vocab" "$work/$2.txt" "${@:3}"; }
pieces() { # NAME VOCABULARY TEXT LABELS FLAG...
  succeeds "pieces: $1" ends_of "$2" "$3" "${@:5}"
  succeeds "have the same ends" test "$(cat "$work/out")" = "$4"
}
pieces "of words, at letters" words words 001001001
pieces "of words, at whitespace" words words 000100100 --word-end whitespace
pieces "of words, as in the code" words words 000100100 --mode reference-code
pieces "at letters" pieces pieces 001010001111011
pieces "at whitespace" pieces pieces 001001000111010 --word-end whitespace
pieces "in the code the first word's inner piece ends late" pieces pieces 000101000111010 --mode reference-code
pieces "unknown characters are one piece" pieces lines 00100100010000110101 --word-end whitespace
pieces "in the code a space alone ends words" pieces lines 00010111110000110101 --mode reference-code
exits 1 "pieces: the code's, at letters" ends_of words words --mode reference-code --word-end letter
cp "$work/err" "$work/refused"
succeeds "are refused" grep -q 'expected --word-end whitespace with --mode reference-code, found letter' "$work/refused"
# Labels of the model's own entropy need no file. They equal the labels computed from its logits as a file, in
# either mode.
head -c 64 "$work/held-out.txt" > "$work/window.txt"
own='"rule": "entropy", "loss": "next", "spike": 2, "predictor": 16'
spec "$work/own.json" "$own"
succeeds "own labels: compile" "$sluice" compile "$work/own.json" -t cpu-avx2 -o "$work/own.sla" --set defaults.dropout=0.1
learn_own() { "$sluice" train "$work/own.sla" --data "$work/training.txt" --save-every 6 "${@}"; }
succeeds "own labels: train" learn_own --out "$work/own" --steps 12 --eval-data "$work/held-out.txt" --sample-prompt "the"
holds "their loss falls, and held-out text has one" \
  'f[0][-1]["losses"]["words.labels"] < f[0][0]["losses"]["words.labels"] - 0.01 and f[0][-1]["eval_losses"]["words.labels"] > 0' "$work/own/metrics.jsonl"
succeeds "own labels: half of a run" learn_own --out "$work/own-halved" --steps 6
succeeds "own labels: resumed" learn_own --out "$work/own-halved" --steps 12 --resume
succeeds "is the run, bit for bit" cmp "$work/own/checkpoints/12/weights.safetensors" "$work/own-halved/checkpoints/12/weights.safetensors"
succeeds "own labels: logits" "$sluice" logits "$work/own.sla" --weights "$work/own" --data "$work/window.txt" -o "$work/own.npy"
labelled() { "$sluice" eval "$1" --weights "$work/own" --data "$work/window.txt" --window 64 --stride 64 --json "${@:2}"; }
for mode in paper reference-code; do
  python3 "$root/scripts/boundary_labels.py" entropy --mode "$mode" "$work/own.npy" > "$work/own.labels"
  spec "$work/own-$mode.json" "$own, \"mode\": \"$mode\""
  spec "$work/file-$mode.json" "\"rule\": \"labels\", \"predictor\": 16, \"mode\": \"$mode\""
  for kind in own file; do
    succeeds "own labels, $mode: compile, $kind" "$sluice" compile "$work/$kind-$mode.json" -t cpu-avx2 -o "$work/$kind-$mode.sla"
  done
  succeeds "own labels, $mode: eval" labelled "$work/own-$mode.sla"
  cp "$work/out" "$work/own-$mode.eval.json"
  succeeds "own labels, $mode: eval against the file's" labelled "$work/file-$mode.sla" --labels "words=$work/own.labels"
  holds "is the same loss" '0 < f[0]["losses"]["words.labels"] == f[1]["losses"]["words.labels"]' "$work/out" "$work/own-$mode.eval.json"
done
holds "the modes give different labels" 'f[0]["losses"]["words.labels"] != f[1]["losses"]["words.labels"]' "$work/own-paper.eval.json" "$work/own-reference-code.eval.json"
# Step by step: the same text as by recomputation, beyond the context, and in one run or with a session
# between.
go() { succeeds "$1" "$sluice" generate "$work/words.sla" --weights "$work/words" --no-echo "${@:2}"; }
go "beyond the context" --prompt "the water is" --tokens 70 --temperature 0 --trace "$work/trace.jsonl"
cp "$work/out" "$work/cached"
go "recomputed" --prompt "the water is" --tokens 70 --temperature 0 --no-cache
cp "$work/out" "$work/other"
succeeds "writes the same text" cmp "$work/cached" "$work/other"
go "to a session within a word" --prompt "the water is" --tokens 31 --temperature 0 --save-session "$work/session"
cp "$work/out" "$work/first"
go "and on from it" --session "$work/session" --prompt "" --tokens 39
cat "$work/first" "$work/out" > "$work/both"
succeeds "writes the same text" cmp "$work/cached" "$work/both"
holds "the trace has one line per token, and a bit at each space" 'len(f[0]) == 70 and f[0][0]["token"] == 115 and all((line["token"] in (9, 10, 11, 12, 13, 32)) == (line["segments"]["words"]["bit"] == 1) for line in f[0])' "$work/trace.jsonl"
# If bits start segments, the first row has one, and each starts a counted segment.
spec "$work/begun.json" '"rule": "space_like", "at": "start"'
succeeds "begun: compile" "$sluice" compile "$work/begun.json" -o "$work/begun.sla"
succeeds "begun: initial weights" "$sluice" train "$work/begun.sla" --out "$work/begun" --steps 0
succeeds "begun: generate" "$sluice" generate "$work/begun.sla" --weights "$work/begun" --prompt "a" --tokens 30 --temperature 0 --repetition-penalty 4 --trace "$work/begun.jsonl"
holds "the trace counts started segments" \
  '(lambda a: a[0] == {"bit": 1, "closed": 1} and 1 < sum(x["bit"] for x in a) < len(a) and all(y["closed"] - x["closed"] == y["bit"] for x, y in zip(a, a[1:])))([line["segments"]["words"] for line in f[0]])' \
  "$work/begun.jsonl"
exits 2 "rows of a stream of segments" "$sluice" logits "$work/words.sla" --weights "$work/words" --data "$work/held-out.txt" --stream g -o "$work/g.npy"
cp "$work/err" "$work/refused"
succeeds "such a stream is not suggested" grep -q 'gives (fine), found "g", whose rows are segments (words); name another' "$work/refused"
# A trace replaces no file that the same run reads or writes.
trace() { "$sluice" generate "$work/words.sla" --weights "$work/words" --tokens 2 "$@"; }
cp "$work/session" "$work/kept"
exits 2 "a trace path equal to the session" trace --session "$work/session" --prompt "" --trace "$work/session"
succeeds "which stays" cmp "$work/session" "$work/kept"
exits 2 "a trace path equal to the saved session" trace --prompt a --trace "$work/both.x" --save-session "$work/./both.x"
exits 130 "a trace that Ctrl-C ends" timeout --preserve-status -s INT 1 "$sluice" generate "$work/words.sla" --weights "$work/words" --tokens 100000000 --temperature 0 --prompt "the water is" --trace "$work/ended.jsonl"
holds "is whole" 'len(f[0]) > 10 and f[0][-1]["position"] == f[0][-2]["position"] + 1' "$work/ended.jsonl"
exits 2 "a trace to a device" trace --prompt a --trace /dev/full
succeeds "inspect" "$sluice" inspect "$work/words.sla"
cp "$work/out" "$work/inspected"
succeeds "reports that rows wait for segments' ends" grep -q 'where a segment of words ends (at most [0-9]* of [0-9]* tokens)' "$work/inspected"
# Axes and losses of model IR may have any name: the plan lists their scalars, outputs and states.
succeeds "model IR" "$sluice" compile "$work/words.json" --emit model
sed -e 's/@words\.s1\b/@"segments.2"/g; s/@words\b/@"closed.x"/g; s/"next", "words.share"/"2", "loss.loss"/' "$work/out" > "$work/named.mlir"
succeeds "with arbitrary names compiles" "$sluice" compile "$work/named.mlir" -t cpu-avx2 -o "$work/named.sla"
succeeds "trains" "$sluice" train "$work/named.sla" --data "$work/training.txt" --out "$work/named" --steps 2
holds "with losses of these names" 'set(f[0][-1]["losses"]) == {"2", "loss.loss"}' "$work/named/metrics.jsonl"
succeeds "evaluates" "$sluice" eval "$work/named.sla" --weights "$work/named" --data "$work/held-out.txt"
succeeds "generates" "$sluice" generate "$work/named.sla" --weights "$work/named" --prompt "a b" --tokens 4 --trace "$work/named.jsonl"
holds "and traces segments of these names" 'all(set(line["segments"]) == {"closed.x"} for line in f[0])' "$work/named.jsonl"
exits 1 "too many segments are reported by name" "$sluice" eval "$work/named.sla" --weights "$work/named" --data "$work/spaces.txt"
cp "$work/err" "$work/refused"
succeeds "of their axis" grep -q 'rows for the segments of "closed.x"' "$work/refused"
# Windows restart at different tokens, while other texts continue.
printf '%s\n' "the water is" "a" "of the sea and" "so  long a prompt that it is soon half of a context" > "$work/prompts"
go "several texts" --prompt-file "$work/prompts" --tokens 80 --seed 3
cp "$work/out" "$work/cached"
go "recomputed" --prompt-file "$work/prompts" --tokens 80 --seed 3 --no-cache
cp "$work/out" "$work/other"
succeeds "are the same texts" cmp "$work/cached" "$work/other"
exits 2 "a trace without a cache" "$sluice" generate "$work/words.sla" --weights "$work/words" --prompt "a b" --tokens 2 --no-cache --trace "$work/none.jsonl"
printf 'a b\nc\n%40s\n' '' > "$work/prompts"
exits 1 "more segments than the capacity in a prompt" "$sluice" generate "$work/words.sla" --weights "$work/words" --prompt-file "$work/prompts" --tokens 2
cp "$work/err" "$work/refused"
succeeds "the message gives the number" grep -q 'text 2, with 40 bytes, needs' "$work/refused"
exits 1 "more segments than the capacity" "$sluice" eval "$work/words.sla" --weights "$work/words" --data "$work/spaces.txt"
cp "$work/err" "$work/refused"
succeeds "and the message names the text" grep -q 'spaces.txt: the window of bytes 0 to 63 needs .* rows for the segments of "words"' "$work/refused"
exits 1 "a sample with more segments than the capacity" "$sluice" train "$work/words.sla" --data "$work/training.txt" --out "$work/sampled" --steps 2 \
  --sample-prompt "$(printf '%40s' '')"
succeeds "the run loses no step" test -e "$work/sampled/latest"
finish

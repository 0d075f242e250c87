#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# A named input on its own axis: an encoder's lines, which a decoder learns to copy; its proof; rejected input.
# shellcheck disable=SC2317 # succeeds and exits call these functions
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

targets=cpu-avx2
reports() {
  if grep -qE -- "$2" "$work/err"; then pass "$1"; else fail "$1" "expected '$2' in:" "$(tail -n 5 "$work/err")"; fi
}
# Random words of 4 to 12 letters: only the source distinguishes them.
python3 - "$work" << 'PYTHON'
import random, sys
random.seed(3)
folder = sys.argv[1]
for name, count in (("train", 20000), ("test", 200)):
    lines = ["".join(random.choice("abcdefgh") for _ in range(random.randint(4, 12))) for _ in range(count)]
    open(f"{folder}/{name}.txt", "w").write("\n".join(lines) + "\n")
    random.shuffle(lines)
    open(f"{folder}/{name}-shuffled.txt", "w").write("\n".join(lines) + "\n")
PYTHON
printf 'one\ntwo\n' > "$work/two.txt"
python3 -c 'print("a" * 40)' > "$work/long.txt"

succeeds "compile" "$sluice" compile "$root/models/tiny/copy.json" -t "$targets" -o "$work/copy.sla"
succeeds "check reports the given input" "$sluice" check "$root/models/tiny/copy.json" --json --certificate "$work/copy.cert"
cp "$work/out" "$work/check.json"
holds "given" 'f[0]["verdict"] == "proved" and f[0]["given"] == ["source"]' "$work/check.json"
succeeds "draw" "$sluice" check "$root/models/tiny/copy.json" --picture "$work/reads.svg"
succeeds "the picture names the input" grep -q '>source<' "$work/reads.svg"
succeeds "certify" "$root/build/bin/sluice-certify" "$root/models/tiny/copy.json" "$work/copy.cert"
cp "$work/out" "$work/certified.txt"
succeeds "with its step" grep -q 'and step by step' "$work/certified.txt"
succeeds "certify --enumerate" "$root/build/bin/sluice-certify" --enumerate "$root/models/tiny/copy.json" "$work/copy.cert"
sed 's/^bound 1 max(-1)$/bound 1 max(-1, p)/' "$work/copy.cert" > "$work/forged.cert"
exits 1 "a bound that makes the input depend on tokens is rejected" \
  "$root/build/bin/sluice-certify" "$root/models/tiny/copy.json" "$work/forged.cert"

sed 's/^keep \([0-9]*\) all$/keep \1 4/' "$work/copy.cert" > "$work/forgotten.cert"
exits 1 "an incompletely stored input is rejected" \
  "$root/build/bin/sluice-certify" "$root/models/tiny/copy.json" "$work/forgotten.cert"

train() { "$sluice" train "$work/copy.sla" --cpu-target "$targets" --threads 2 "$@"; }
score() { "$sluice" eval "$work/copy.sla" --cpu-target "$targets" --weights "$work/run" --data "$work/test.txt" --json "$@"; }
succeeds "train" train --data "$work/train.txt" --input "source=$work/train.txt" --out "$work/run" \
  --eval-data "$work/test.txt" --eval-input "source=$work/test.txt"
succeeds "eval" score --input "source=$work/test.txt"
cp "$work/out" "$work/right.json"
succeeds "eval of another source" score --input "source=$work/test-shuffled.txt"
cp "$work/out" "$work/wrong.json"
holds "copies the source" 'f[0]["bits_per_byte"] < 0.1' "$work/right.json"
holds "and nothing else" 'f[0]["bits_per_byte"] > 3' "$work/wrong.json"
holds "every line is scored with its end" "f[0][\"tokens\"] == $(wc -c < "$work/test.txt")" "$work/right.json"
holds "a character is a byte here, line ends too" 'f[0]["characters"] == f[0]["tokens"]' "$work/right.json"
holds "held-out lines while training" 'abs(f[1][-1]["eval_bits_per_byte"] - f[0]["bits_per_byte"]) < 1e-6' \
  "$work/right.json" "$work/run/metrics.jsonl"

# 16 lines of 4 to 12 bytes and an end each, and as many tokens of the source without ends; both capacities are 16.
holds "rows stop at each line" 'all(16 * 4 <= m["rows"]["source"]["computed"] == m["rows"]["tokens"]["computed"] - 16 <= 16 * 12 and
  all(r["padding"] == 0 for r in m["rows"].values()) for m in f[0])' "$work/run/metrics.jsonl"

exits 2 "no input" train --data "$work/train.txt" --out "$work/none"
reports "the message names the missing input" 'expected --input source=FILE'
exits 2 "another input" train --data "$work/train.txt" --input "sauce=$work/train.txt" --out "$work/none"
reports "the message names its inputs" 'which has "source", found "sauce"'
exits 2 "a different number of lines" score --input "source=$work/two.txt"
reports "both numbers" 'two.txt: expected as many lines as .*test.txt has, 200, found 2'
exits 2 "not NAME=FILE" score --input "$work/two.txt"
reports "the form" 'expected NAME=FILE'
succeeds "a line longer than its axis is truncated" "$sluice" eval "$work/copy.sla" --weights "$work/run" --cpu-target "$targets" \
  --data "$work/long.txt" --input "source=$work/long.txt" --json
reports "with a count" 'cut 1 of 1 lines of the input source, longer than 16 bytes'
head -n 20 "$work/test.txt" > "$work/some.txt"
writes() { "$sluice" generate "$work/copy.sla" --cpu-target "$targets" --weights "$work/run" --temperature 0 --json "$@"; }
succeeds "generate" writes --input "source=$work/some.txt"
python3 -c 'import json, sys; [print(json.loads(line)["text"]) for line in sys.stdin]' < "$work/out" > "$work/copied.txt"
cp "$work/out" "$work/cached.json"
succeeds "writes each line of the source" cmp "$work/copied.txt" "$work/some.txt"
succeeds "a metric of these lines" "$sluice" eval "$work/copy.sla" --cpu-target "$targets" --weights "$work/run" --metric rouge --json \
  --input "source=$work/some.txt" --reference "$work/some.txt"
holds "is that of a copy" 'f[0]["rouge1"] == f[0]["rougeLsum"] == 1' "$work/out"
succeeds "generate --no-cache" writes --input "source=$work/some.txt" --no-cache
cp "$work/out" "$work/recomputed.json"
succeeds "writes the same" cmp "$work/recomputed.json" "$work/cached.json"
head -n 1 "$work/test.txt" > "$work/one.txt"
succeeds "generate continues a prompt" writes --input "source=$work/one.txt" --prompt "$(head -c 3 "$work/one.txt")"
holds "by the rest of the line" "f[0]['text'] == '$(head -n 1 "$work/test.txt" | cut -c 4-)'" "$work/out"
succeeds "a session starts" writes --input "source=$work/one.txt" --tokens 2 --save-session "$work/line.session"
succeeds "and stores its input" writes --session "$work/line.session"
holds "to the line's end" "f[0]['text'] == '$(head -n 1 "$work/test.txt" | cut -c 3-)'" "$work/out"
exits 2 "a different input for the session" writes --session "$work/line.session" --input "source=$work/one.txt"
reports "reports that the session holds the input" 'expected no --input with --session, which holds the inputs'
exits 2 "a session of several lines" writes --input "source=$work/some.txt" --save-session "$work/line.session"
reports "their number" 'expected one text for a session, found the 20 lines of --input'
likely() { "$sluice" generate "$work/copy.sla" --cpu-target "$targets" --weights "$work/run" --json --input "source=$work/one.txt" "$@"; }
succeeds "continuations are scored" likely --score "$(cat "$work/one.txt")" --score "$(tr a-y b-z < "$work/one.txt")"
holds "and the line itself has the highest score" 'f[0][0]["nats"] < 1 < f[0][1]["nats"]' <(python3 -c '
import json, sys; print(json.dumps([json.loads(line) for line in sys.stdin]))' < "$work/out")
exits 2 "a score past the end of the line" likely --score 12345678901234567
reports "the message names the remaining length" 'at most 16 bytes'
exits 2 "a prompt of the complete line" likely --prompt 1234567890123456
reports "the message names the maximum length" 'line of at most 16 bytes'
exits 2 "generate without its input" writes
reports "the message names it" 'expected --input source=FILE'
printf 'a\nb\n' > "$work/prompts.txt"
exits 2 "a different number of prompts" writes --input "source=$work/one.txt" --prompt-file "$work/prompts.txt"
reports "both" 'expected a prompt for each of the 1 lines of --input, found 2'
logits() { "$sluice" logits "$work/copy.sla" --cpu-target "$targets" --weights "$work/run" --data "$work/test.txt" -o "$work/x.npy" --force "$@"; }
succeeds "logits" logits --input "source=$work/test.txt"
# The nats of each byte and line end by its row of logits, added up, are what eval computes.
nats_of_logits() {
  python3 - "$work/x.npy" "$work/test.txt" "$work/right.json" << 'PYTHON'
import array, json, math, sys
data, text = open(sys.argv[1], "rb").read(), open(sys.argv[2], "rb").read()
rows = array.array("f", data[10 + int.from_bytes(data[8:10], "little"):])
assert len(rows) == 256 * len(text), (len(rows), len(text))
nats = 0
for i, byte in enumerate(text):
    row = rows[256 * i:256 * (i + 1)]
    nats += math.log(sum(map(math.exp, row))) - row[byte]
assert abs(nats - json.load(open(sys.argv[3]))["nats"]) < 1e-4 * len(text), nats
PYTHON
}
succeeds "have the loss of eval" nats_of_logits
exits 2 "logits without the input" logits
reports "the message names the input" 'expected --input source=FILE'
exits 2 "windows of lines" logits --input "source=$work/test.txt" --window 8
reports "are rejected" 'expected no --window, no --stride and no --stream for a model with named inputs'

# Encoders that see both ways by signed distances, of which one reads the other.
cat > "$work/ways.json" << 'SPEC'
{
  "sluice": 1, "vocabulary": 256, "context": 16, "batch": 4, "width": 32,
  "inputs": { "source": { "context": 16 }, "hint": { "context": 5 } },
  "defaults": { "heads": 4, "mask": "bidirectional" },
  "stages": [
    { "op": "embedding", "positions": "learned", "to": "text" },
    { "op": "embedding", "input": "source" },
    { "op": "layer", "relative": { "vectors": 3 } },
    { "op": "layer", "relative": { "signed_bias": 20 } },
    { "op": "norm", "to": "source" },
    { "op": "embedding", "input": "hint" },
    { "op": "layer", "over": "source" },
    { "op": "norm", "to": "memory" },
    { "op": "layer", "from": "text", "mask": "causal", "relative": { "vectors": 2 } },
    { "op": "layer", "over": "memory" },
    { "op": "head" }
  ]
}
SPEC
both=(--input "source=$work/some.txt" --input "hint=$work/some.txt")
succeeds "ways: check" "$sluice" check "$work/ways.json" --certificate "$work/ways.cert"
succeeds "ways: certified" "$root/build/bin/sluice-certify" --enumerate "$work/ways.json" "$work/ways.cert"
succeeds "ways: compile" "$sluice" compile "$work/ways.json" -t "$targets" -o "$work/ways.sla"
succeeds "ways: train" "$sluice" train "$work/ways.sla" --data "$work/some.txt" "${both[@]}" --out "$work/ways-run" --steps 20 --threads 2
holds "ways: the loss falls" 'f[0][-1]["loss"] < f[0][0]["loss"]' "$work/ways-run/metrics.jsonl"
again() { "$sluice" generate "$work/ways.sla" --weights "$work/ways-run" --temperature 0 --json "${both[@]}" "$@"; }
succeeds "ways: generate" again
cp "$work/out" "$work/ways.cached"
succeeds "ways: generate --no-cache" again --no-cache
cp "$work/out" "$work/ways.plain"
succeeds "ways: the same" cmp "$work/ways.plain" "$work/ways.cached"
python3 - "$work/ways.json" "$work/leak.json" "$work/tokens.json" << 'PYTHON'
import json, sys
spec = json.load(open(sys.argv[1]))
spec["stages"][8]["mask"] = "bidirectional"
json.dump(spec, open(sys.argv[2], "w"), indent=1)
spec["stages"][6]["over"] = "text"
json.dump(spec, open(sys.argv[3], "w"), indent=1)
PYTHON
exits 1 "ways: both ways on the tokens leak" "$sluice" check "$work/leak.json"
exits 2 "ways: an input over the tokens" "$sluice" check "$work/tokens.json"
reports "ways: is rejected" 'expected a stream of an input where "over" belongs to a layer of one'

# A decoder with Transformer-XL's terms, whose rows by distance are on the tokens' axis, and a loss of its groups.
cat > "$work/both.json" << 'SPEC'
{
  "sluice": 1, "vocabulary": 256, "context": 16, "batch": 4, "width": 32,
  "inputs": { "source": { "context": 16 } },
  "defaults": { "heads": 4 },
  "stages": [
    { "op": "embedding", "positions": "learned", "to": "text" },
    { "op": "embedding", "input": "source", "positions": "learned" },
    { "op": "layer", "mask": "bidirectional" },
    { "op": "norm", "to": "memory" },
    { "op": "layer", "from": "text", "relative": "xl" },
    { "op": "layer", "over": "memory" },
    { "op": "norm", "to": "fine" },
    { "op": "shorten", "factor": 4 },
    { "op": "layer", "relative": {"bias": 3} },
    { "op": "loss", "name": "bag", "factor": 0.3, "tied": true },
    { "op": "norm", "from": "fine" },
    { "op": "head", "label_smoothing": 0.1 }
  ]
}
SPEC
succeeds "both: check" "$sluice" check "$work/both.json" --certificate "$work/both.cert"
succeeds "both: certified" "$root/build/bin/sluice-certify" "$work/both.json" "$work/both.cert"
succeeds "both: compile" "$sluice" compile "$work/both.json" -t "$targets" -o "$work/both.sla"
succeeds "both: train" "$sluice" train "$work/both.sla" --data "$work/test.txt" --input "source=$work/test.txt" \
  --out "$work/both-run" --steps 20 --threads 2
holds "both: two losses fall" 'all(f[0][-1]["losses"][n] < f[0][0]["losses"][n] for n in ("next", "bag"))' "$work/both-run/metrics.jsonl"
succeeds "both: eval" "$sluice" eval "$work/both.sla" --weights "$work/both-run" --data "$work/test.txt" \
  --input "source=$work/test.txt" --json
cp "$work/out" "$work/both.eval.json"
holds "both: eval names both losses" \
  'abs(f[0]["losses"]["next"] - f[0]["nats"] / f[0]["tokens"]) < 1e-9 and f[0]["losses"]["bag"] > 0' "$work/both.eval.json"

# Words of the source: layers on its bytes and on its words, both read by the decoder.
words=$root/models/tiny/given-words.json
python3 - "$work" <<'END'
import random, sys
draw = random.Random(5)
with open(sys.argv[1] + "/words.txt", "w") as lines:
    for _ in range(40):
        lines.write(" ".join(draw.choice(["a", "by", "cat", "door"]) for _ in range(draw.randint(0, 3))) + "\n")
END
succeeds "words: check" "$sluice" check "$words" --certificate "$work/words.cert"
succeeds "words: certified" "$root/build/bin/sluice-certify" "$words" "$work/words.cert"
cp "$work/out" "$work/words.certified"
succeeds "words: with their step" grep -q 'and step by step' "$work/words.certified"
sed 's/"own"/"repeat"/' "$words" > "$work/repeat.json"
exits 2 "words: the last word that ended is no method of an input" "$sluice" check "$work/repeat.json"
reports "the remedy" 'expected "own" for "method" on the axis of an input, .*write "own"'
succeeds "words: compile" "$sluice" compile "$words" -t "$targets" -o "$work/words.sla"
words() { "$sluice" "$1" "$work/words.sla" --cpu-target "$targets" "${@:2}"; }
succeeds "words: train" words train --data "$work/words.txt" --input "source=$work/words.txt" --out "$work/words-run" --steps 30 --threads 2
holds "words: the loss falls" 'f[0][-1]["loss"] < 0.9 * f[0][0]["loss"]' "$work/words-run/metrics.jsonl"
head -n 8 "$work/words.txt" > "$work/few.txt"
written() { words generate --weights "$work/words-run" --temperature 0 --json --input "source=$1" "${@:2}"; }
succeeds "words: generate" written "$work/few.txt"
cp "$work/out" "$work/words.json"
succeeds "words: generate --no-cache" written "$work/few.txt" --no-cache
cp "$work/out" "$work/words.recomputed"
succeeds "words: writes the same" cmp "$work/words.recomputed" "$work/words.json"
grep -v '"over": "memory"' "$words" | sed 's/"layer", "over": "coarse"/"layer", "from": "text", "over": "coarse"/; s/"norm", "to": "memory"/"norm"/' > "$work/coarse.json"
succeeds "words: compile a decoder that reads words alone" "$sluice" compile "$work/coarse.json" -t "$targets" -o "$work/words.sla"
succeeds "words: train it" words train --data "$work/words.txt" --input "source=$work/words.txt" --out "$work/coarse-run" --steps 30 --threads 2
written() { words generate --weights "$work/coarse-run" --temperature 0 --json --input "source=$1" "${@:2}"; }
succeeds "words: generate from words alone" written "$work/few.txt"
cp "$work/out" "$work/words.json"
succeeds "words: generate from words alone, --no-cache" written "$work/few.txt" --no-cache
cp "$work/out" "$work/words.recomputed"
succeeds "words: writes the same from words alone" cmp "$work/words.recomputed" "$work/words.json"
succeeds "words: eval" words eval --weights "$work/coarse-run" --data "$work/few.txt" --input "source=$work/few.txt"
finish

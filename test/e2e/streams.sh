#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Several streams of tokens on the axis of an input: derived from its words, and from a file; with bytes and with a
# tokenizer.
# shellcheck disable=SC2317 # succeeds and exits call these functions
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

targets=cpu-avx2
reports() {
  if grep -qE -- "$2" "$work/err"; then pass "$1"; else fail "$1" "expected '$2' in:" "$(tail -n 5 "$work/err")"; fi
}
export XDG_CACHE_HOME=$work/cache
# Lines of words and a tag for each byte. `bits` has the ends of words by the rule `whitespace`.
python3 - "$work" << 'PYTHON'
import random, sys
random.seed(3)
folder = sys.argv[1]
words = ["low", "lower", "new", "a", "newest", "or"]
lines = [" ".join(random.choice(words) for _ in range(random.randint(1, 3))) for _ in range(60)]
def write(name, rows):
    open(f"{folder}/{name}", "w").write("\n".join(rows) + "\n")
write("text", lines)
write("tags", ["".join(random.choice("0123") for _ in line) for line in lines])
write("zeros", ["0" * len(line) for line in lines])
write("bits", ["".join("1" if c == " " else "0" for c in line) for line in lines])
write("short", ["0" * len(line) for line in lines[:-1]] + ["0"])
PYTHON
spec=$root/models/tiny/words.json

succeeds "compile" "$sluice" compile "$spec" -t "$targets" -o "$work/words.sla"
succeeds "check" "$sluice" check "$spec" --json --certificate "$work/words.cert" --picture "$work/reads.svg"
holds "is proved" 'f[0]["verdict"] == "proved"' "$work/out"
succeeds "the picture names the stream" grep -q '>tag<' "$work/reads.svg"
succeeds "certify" "$root/build/bin/sluice-certify" "$spec" "$work/words.cert"
sed 's/^bound 3 max(-1)$/bound 3 max(-1, p)/' "$work/words.cert" > "$work/forged.cert"
succeeds "a forged bound of a stream" grep -q '^bound 3 max(-1, p)$' "$work/forged.cert"
exits 1 "is rejected" "$root/build/bin/sluice-certify" "$spec" "$work/forged.cert"
sed 's/"from": "text" }/"from": "text", "mask": "bidirectional" }/' "$spec" > "$work/leak.json"
exits 1 "a decoder with streams that looks ahead" "$sluice" check "$work/leak.json"
if grep -q "replay of the compiled program: with token 1 changed" "$work/out"; then pass "and its replay"; else fail "and its replay" "$(cat "$work/out")"; fi

train() { "$sluice" train "$work/words.sla" --cpu-target "$targets" --threads 2 --data "$work/text" --input "source=$work/text" "$@"; }
score() { "$sluice" eval "$1" --cpu-target "$targets" --weights "$work/run" --data "$work/text" --input "source=$work/text" --json "${@:2}"; }
succeeds "train" train --input "tag=$work/tags" --steps 60 --out "$work/run"
succeeds "eval" score "$work/words.sla" --input "tag=$work/tags"
cp "$work/out" "$work/right.json"
succeeds "eval of other tags" score "$work/words.sla" --input "tag=$work/zeros"
holds "tags count" 'f[0]["nats"] != f[1]["nats"]' "$work/right.json" "$work/out"
# The same bits from a file.
sed 's/"rule": "whitespace"/"rule": "file"/' "$spec" > "$work/file.json"
succeeds "compile with a file of bits" "$sluice" compile "$work/file.json" -t "$targets" -o "$work/file.sla"
succeeds "eval" score "$work/file.sla" --input "tag=$work/tags" --input "split=$work/bits"
holds "derived bits are those of the file" 'f[0]["nats"] == f[1]["nats"]' "$work/right.json" "$work/out"
succeeds "eval of other bits" score "$work/file.sla" --input "tag=$work/tags" --input "split=$work/zeros"
holds "bits count" 'f[0]["nats"] != f[1]["nats"]' "$work/right.json" "$work/out"
exits 2 "bits of another length" score "$work/file.sla" --input "tag=$work/tags" --input "split=$work/short"
reports "the places of both lines" 'short:60: expected [0-9]+ tokens, one for each token of .*text:60, found 1; write one for each byte of the line'

writes() { "$sluice" generate "$1" --cpu-target "$targets" --weights "$work/run" --temperature 0 --json "${@:2}"; }
head -n 3 "$work/text" > "$work/some"
head -n 3 "$work/tags" > "$work/some-tags"
succeeds "generate" writes "$work/words.sla" --input "source=$work/some" --input "tag=$work/some-tags"
cp "$work/out" "$work/cached.json"
succeeds "generate --no-cache" writes "$work/words.sla" --input "source=$work/some" --input "tag=$work/some-tags" --no-cache
cp "$work/out" "$work/recomputed.json"
succeeds "writes the same" cmp "$work/recomputed.json" "$work/cached.json"
head -n 1 "$work/text" > "$work/one"
head -n 1 "$work/tags" > "$work/one-tag"
succeeds "a session starts" writes "$work/words.sla" --input "source=$work/one" --input "tag=$work/one-tag" --tokens 2 --save-session "$work/session"
cp "$work/out" "$work/begun.json"
succeeds "and stores its streams" writes "$work/words.sla" --session "$work/session"
holds "with the same continuation" 'f[0][0]["text"].startswith(f[1]["text"]) and f[0][0]["text"][len(f[1]["text"]):] == f[2]["text"]' \
  <(python3 -c 'import json, sys; print(json.dumps([json.loads(line) for line in sys.stdin]))' < "$work/cached.json") \
  "$work/begun.json" "$work/out"

exits 2 "a line of another length" train --input "tag=$work/short" --steps 1 --out "$work/none"
reports "the places of both lines" 'short:60: expected [0-9]+ tokens, one for each token of .*text:60, found 1'
exits 2 "an id beyond the vocabulary" train --input "tag=$work/text" --steps 1 --out "$work/none"
reports "its column" 'text:1:1: expected ids from 0 to 3 of the input "tag"'
exits 2 "a file for derived bits" train --input "tag=$work/tags" --input "split=$work/bits" --steps 1 --out "$work/none"
reports "whose bits follow" 'expected no file for the input "split", whose bits follow from the words of "source"'

# With a tokenizer, whose pieces are words and their parts.
succeeds "train a tokenizer" "$sluice" tokenizer --data "$work/text" --vocabulary 270 --kind bpe -o "$work/text.tok"
sed -e 's/"vocabulary": 256/"vocabulary": 270/' -e 's/"whitespace"/"pieces"/' -e '/"tag"/d' -e 's/"rule": "pieces" },/"rule": "pieces" }/' \
  -e '/"op": "add", "with": "class"/d' -e 's/"input": "split", "to": "class"/"input": "split"/' \
  -e 's/^  "inputs": {/&\n    "ends": { "on": "source", "derived": "word_end", "rule": "pieces" },/' \
  -e 's/^.*"mask": "bidirectional" },/&\n{ "op": "boundaries", "name": "word", "rule": "bits", "bits": "ends" },\
    { "op": "shorten", "segments": "word" },\n{ "op": "upsample", "segments": "word", "method": "own" },/' "$spec" > "$work/pieces.json"
succeeds "check words of pieces" "$sluice" check "$work/pieces.json" --certificate "$work/pieces.cert"
succeeds "certify them" "$root/build/bin/sluice-certify" "$work/pieces.json" "$work/pieces.cert"
succeeds "compile" "$sluice" compile "$work/pieces.json" -t "$targets" -o "$work/pieces.sla"
pieces() { "$sluice" train "$work/pieces.sla" --cpu-target "$targets" --data "$work/text" --input "source=$work/text" "$@"; }
exits 2 "pieces without a tokenizer" pieces --steps 1 --out "$work/none"
reports "the remedy" 'give --tokenizer TOK'
exits 2 "whitespace with a tokenizer" train --input "tag=$work/tags" --tokenizer "$work/text.tok" --steps 1 --out "$work/none"
reports "the vocabulary is too small" 'expected a tokenizer of at most 256 ids'
succeeds "train with the tokenizer" pieces --tokenizer "$work/text.tok" --steps 40 --out "$work/coded" \
  --eval-data "$work/text" --eval-input "source=$work/text"
coded() { "$sluice" eval "$work/pieces.sla" --cpu-target "$targets" --weights "$work/coded" --data "$work/text" --input "source=$work/text" --json "$@"; }
succeeds "eval finds the tokenizer in the run" coded
holds "every byte counts" "f[0][\"bytes\"] == $(wc -c < "$work/text") and f[0][\"tokens\"] < f[0][\"bytes\"] and abs(f[0][\"bits_per_byte\"] * f[0][\"bytes\"] - f[0][\"bits_per_token\"] * f[0][\"tokens\"]) < 1e-6 * f[0][\"bytes\"]" "$work/out"
coding() { "$sluice" generate "$work/pieces.sla" --cpu-target "$targets" --weights "$work/coded" --temperature 0 --json "$@"; }
succeeds "generate writes text" coding --input "source=$work/some"
holds "of the pieces" 'all(set(line["text"]) <= set("abcdefghijklmnopqrstuvwxyz ") for line in f[0]) and len(f[0]) == 3' \
  <(python3 -c 'import json, sys; print(json.dumps([json.loads(line) for line in sys.stdin]))' < "$work/out")
succeeds "a session of tokens" coding --input "source=$work/one" --tokens 1 --save-session "$work/coded.session"
succeeds "continues" coding --session "$work/coded.session"
finish

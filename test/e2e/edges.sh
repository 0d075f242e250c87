#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# An input of edges: a decoder copies its source and writes rows that have a neighbour in upper case, which only the edges show.
# shellcheck disable=SC2317 # succeeds and exits call these functions
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

targets=cpu-avx2
spec=$root/models/tiny/graph.json
reports() {
  if grep -qE -- "$2" "$work/err"; then pass "$1"; else fail "$1" "expected '$2' in:" "$(tail -n 5 "$work/err")"; fi
}
python3 - "$work" << 'PYTHON'
import random, sys
random.seed(4)
folder = sys.argv[1]
for name, count in (("train", 20000), ("test", 100)):
    sources, edges, texts = [], [], []
    for _ in range(count):
        letters = [random.choice("abcdefgh") for _ in range(random.randint(4, 12))]
        pairs = [random.sample(range(len(letters)), 2) for _ in range(random.randint(0, 3))]
        linked = {row for pair in pairs for row in pair}
        sources.append("".join(letters))
        edges.append(" ".join(f"{u}-{v}" for u, v in pairs))
        texts.append("".join(x.upper() if row in linked else x for row, x in enumerate(letters)))
    for part, lines in (("source", sources), ("links", edges), ("text", texts)):
        open(f"{folder}/{name}.{part}", "w").write("\n".join(lines) + "\n")
PYTHON
sed 's/.*//' "$work/test.links" > "$work/none.links"

succeeds "compile" "$sluice" compile "$spec" -t "$targets" -o "$work/graph.sla"
succeeds "check" "$sluice" check "$spec" --json --certificate "$work/graph.cert"
cp "$work/out" "$work/check.json"
holds "proved" 'f[0]["verdict"] == "proved" and f[0]["given"] == ["source"]' "$work/check.json"
succeeds "certify, by enumeration too" "$root/build/bin/sluice-certify" --enumerate "$spec" "$work/graph.cert"
sed 's/ "from": "text" }/ "from": "text", "to": "own" },\n    { "op": "graph_convolution", "edges": "links" }/' "$spec" > "$work/leak.json"
exits 2 "edges between tokens are rejected" "$sluice" check "$work/leak.json"
reports "with their place and the reason" 'leak.json:[0-9]+:[0-9]+: .*an edge may connect a row with a later one'

train() { "$sluice" train "$work/graph.sla" --cpu-target "$targets" --threads 2 --data "$work/train.text" "$@"; }
score() { "$sluice" eval "$work/graph.sla" --cpu-target "$targets" --weights "$work/run" --data "$work/test.text" --json --input "source=$work/test.source" "$@"; }
succeeds "train" train --input "source=$work/train.source" --input "links=$work/train.links" --out "$work/run" --steps 600
succeeds "eval" score --input "links=$work/test.links"
cp "$work/out" "$work/right.json"
succeeds "eval without an edge" score --input "links=$work/none.links"
holds "the model reads its edges" 'f[0]["bits_per_byte"] < 0.5 and f[1]["bits_per_byte"] > 2 * f[0]["bits_per_byte"] + 0.3' \
  "$work/right.json" "$work/out"
for part in source links; do head -n 20 "$work/test.$part" > "$work/some.$part"; done
writes() { "$sluice" generate "$work/graph.sla" --cpu-target "$targets" --weights "$work/run" --temperature 0 --json "$@"; }
succeeds "generate" writes --input "source=$work/some.source" --input "links=$work/some.links"
cp "$work/out" "$work/cached.json"
succeeds "generate --no-cache" writes --input "source=$work/some.source" --input "links=$work/some.links" --no-cache
cp "$work/out" "$work/uncached.json"
succeeds "writes the same" cmp "$work/uncached.json" "$work/cached.json"
for part in source links; do sed -n 3p "$work/test.$part" > "$work/one.$part"; done
succeeds "a session starts" writes --input "source=$work/one.source" --input "links=$work/one.links" --tokens 2 --save-session "$work/line.session"
succeeds "and stores its edges" writes --session "$work/line.session"
holds "to the end of the line" 'f[0]["text"] == f[1][2]["text"][2:]' "$work/out" <(python3 -c '
import json, sys; print(json.dumps([json.loads(line) for line in sys.stdin]))' < "$work/cached.json")

exits 2 "no edges" train --input "source=$work/train.source" --out "$work/absent"
reports "the message names the missing input" 'expected --input links=FILE, as the model has the edges "links".*write "pattern": "chain" for "capacity" of inputs.links in the spec'
sed 's/"capacity": 24/"pattern": "chain"/' "$spec" > "$work/chain.json"
succeeds "its remedy: a spec whose edges need no file" "$sluice" check "$work/chain.json" --no-advice
sed '7s/.*/0-1 0-12/' "$work/train.links" > "$work/far.links"
exits 2 "a row past the end of its line" train --input "source=$work/train.source" --input "links=$work/far.links" --out "$work/absent"
reports "with both lines" 'far.links:7: expected edges between the [0-9]+ rows of .*train.source:7, counted from 0, found 0-12'
succeeds "nothing is written" test ! -e "$work/absent"
finish

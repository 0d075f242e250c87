#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# An encoder over words and their edges (models/tiny/umst.json): a decoder copies its source and writes words that have a neighbour in
# upper case.
# shellcheck disable=SC2317 # succeeds and exits call these functions
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

targets=cpu-avx2
spec=$root/models/tiny/umst.json
reports() {
  if grep -qE -- "$2" "$work/err"; then pass "$1"; else fail "$1" "expected '$2' in:" "$(tail -n 5 "$work/err")"; fi
}
python3 - "$work" << 'PYTHON'
import random, sys
random.seed(4)
folder = sys.argv[1]
for name, count in (("train", 8000), ("test", 100)):
    sources, edges, texts = [], [], []
    for _ in range(count):
        words = ["".join(random.choice("abcd") for _ in range(random.randint(1, 3))) for _ in range(random.randint(2, 4))]
        pairs = [random.sample(range(len(words)), 2) for _ in range(random.randint(0, 1))]
        linked = {word for pair in pairs for word in pair}
        sources.append(" ".join(words)[:15])
        edges.append(" ".join(f"{u}-{v}" for u, v in pairs))
        texts.append(" ".join(x.upper() if word in linked else x for word, x in enumerate(words))[:15])
    for part, lines in (("source", sources), ("links", edges), ("text", texts)):
        open(f"{folder}/{name}.{part}", "w").write("\n".join(lines) + "\n")
PYTHON
sed 's/.*//' "$work/test.links" > "$work/none.links"

succeeds "compile" "$sluice" compile "$spec" -t "$targets" -o "$work/umst.sla"
succeeds "check" "$sluice" check "$spec" --json --certificate "$work/umst.cert"
cp "$work/out" "$work/check.json"
holds "proved" 'f[0]["verdict"] == "proved"' "$work/check.json"
succeeds "certify" "$root/build/bin/sluice-certify" "$spec" "$work/umst.cert"
python3 - "$spec" "$work" << 'PYTHON'
import copy, json, sys
spec, folder = json.load(open(sys.argv[1])), sys.argv[2]
variants = {"no-class": {}, "no-intra": {"intra": "none"}, "pooling": {"intra": "pooling", "inter": "pooling"}, "vectors": {"vectors": 3},
            "shared-maps": {"shared_maps": True}, "shared-layers": {"count": 2, "graph_maps": "layers"}, "shared-scales": {"graph_maps": "scales"},
            "nearest": {"expand": "nearest", "vectors": 2}, "linear": {"expand": "linear"}, "half": {"intra_edges": "pairs"},
            "code": {"mode": "reference-code", "vectors": 2, "dropout": 0.1}, "no-inter": {"inter": "none", "attention_dropout": 0.1}, "chain": {},
            "gat": {"intra": "gat", "inter": "gat", "graph_maps": "scales", "dropout": 0.1}}
for name, settings in variants.items():
    made = copy.deepcopy(spec)
    made["stages"][5].update(settings)
    if name == "half":
        made["inputs"]["pairs"] = {"type": "edges", "on": "source", "pattern": "half"}
    if name == "no-inter":
        del made["stages"][5]["edges"], made["inputs"]["links"]
    if name == "no-class":
        del made["stages"][3], made["stages"][1], made["inputs"]["class"]
    if name == "chain":
        made["inputs"]["links"] = {"type": "edges", "on": "ends", "pattern": "chain"}
    json.dump(made, open(f"{folder}/variant-{name}.json", "w"), indent=1)
PYTHON
for variant in "$work"/variant-*.json; do
  name=${variant##*/variant-}
  succeeds "check ${name%.json}" "$sluice" check "$variant" --certificate "$work/variant.cert"
  succeeds "certify ${name%.json}" "$root/build/bin/sluice-certify" "$variant" "$work/variant.cert"
done
sed 's/"from": "seen", "query"/"from": "seen", "mask": "bidirectional", "query"/; s/{ "op": "layer", "from": "text",/{ "op": "layer", "from": "text", "mask": "bidirectional",/' \
  "$spec" > "$work/leak.json"
exits 1 "a decoder that looks ahead is refused" "$sluice" check "$work/leak.json"

succeeds "compile a chain" "$sluice" compile "$work/variant-chain.json" -t "$targets" -o "$work/chain.sla"
awk '{ for (i = 2; i <= NF; ++i) printf "%d-%d ", i - 2, i - 1; print "" }' "$work/test.source" > "$work/chain.links"

train() { "$sluice" train "$work/umst.sla" --cpu-target "$targets" --threads 2 --data "$work/train.text" "$@"; }
score() { "$sluice" eval "$work/umst.sla" --cpu-target "$targets" --weights "$work/run" --data "$work/test.text" --json --input "source=$work/test.source" "$@"; }
succeeds "train" train --input "source=$work/train.source" --input "links=$work/train.links" --out "$work/run" --steps 300
succeeds "eval" score --input "links=$work/test.links"
cp "$work/out" "$work/right.json"
succeeds "eval without an edge" score --input "links=$work/none.links"
holds "the model reads its edges" 'f[0]["nats"] < f[1]["nats"]' "$work/right.json" "$work/out"
succeeds "eval with a file of chains" score --input "links=$work/chain.links"
cp "$work/out" "$work/file.json"
succeeds "eval of a chain without a file" "$sluice" eval "$work/chain.sla" --cpu-target "$targets" --weights "$work/run" --data "$work/test.text" --json --input "source=$work/test.source"
holds "agree" 'f[0]["nats"] == f[1]["nats"] and f[0]["nats"] != f[2]["nats"]' "$work/file.json" "$work/out" "$work/right.json"
for part in source links; do head -n 20 "$work/test.$part" > "$work/some.$part"; done
writes() { "$sluice" generate "$work/umst.sla" --cpu-target "$targets" --weights "$work/run" --temperature 0 --json "$@"; }
succeeds "generate" writes --input "source=$work/some.source" --input "links=$work/some.links"
cp "$work/out" "$work/cached.json"
succeeds "generate --no-cache" writes --input "source=$work/some.source" --input "links=$work/some.links" --no-cache
cp "$work/out" "$work/recomputed.json"
succeeds "writes the same" cmp "$work/recomputed.json" "$work/cached.json"
maps() { "$sluice" analyze attention "$work/umst.sla" --cpu-target "$targets" --weights "$work/run" --data "$work/test.text" \
  --input "source=$work/test.source" --input "links=$work/test.links" --line 3 --json "$@"; }
for part in rows words; do
  succeeds "the map of $part" maps --layer stages.5.inside.13 --part "$part"
  cp "$work/out" "$work/$part.json"
done
succeeds "the map of both" maps --layer stages.5.inside.13
holds "is half their sum" 'all(abs(x - (a + b) / 2) < 1e-6 for r, s, t in zip(f[0]["map"], f[1]["map"], f[2]["map"]) for x, a, b in zip(r, s, t))' \
  "$work/out" "$work/rows.json" "$work/words.json"
holds "rows of the map of rows add up to 1" 'all(abs(sum(row) - 1) < 1e-5 for row in f[0]["map"])' "$work/rows.json"
holds "a word's rows are alike in the map of words, and one of each word adds up to 1" \
  '(lambda ends, m: all(m[i] == m[i + 1] for i in range(len(m) - 1) if not ends[i]) and all(r[i] == r[i + 1] for r in m for i in range(len(m) - 1) if not ends[i])
    and all(abs(sum(x for x, end in zip(r, ends) if end) - 1) < 1e-5 for r in m))([k in ("_", "\\n") or i == len(f[0]["keys"]) - 2 for i, k in enumerate(f[0]["keys"])], f[0]["map"])' \
  "$work/words.json"
succeeds "the map of a layer of the decoder alone" maps --layer stages.6

sed '7s/.*/0-1 0-9/' "$work/train.links" > "$work/far.links"
exits 2 "a word past the end of its line" train --input "source=$work/train.source" --input "links=$work/far.links" --out "$work/absent"
reports "with both lines" 'far.links:7: expected edges between the [0-9]+ words of .*train.source:7, counted from 0, found 0-9'
succeeds "nothing is written" test ! -e "$work/absent"
finish

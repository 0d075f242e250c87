#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Advice of sluice check about causal models that could see more, --strict, and the picture.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

# write_spec FILE STAGES
write_spec() {
  cat > "$1" << SPEC
{
  "sluice": 1, "name": "drawn <&>", "vocabulary": 256, "context": 64, "batch": 1, "width": 16, "defaults": { "heads": 2 },
  "stages": [
    { "op": "embedding", "to": "x" },
    $2
    { "op": "head" }
  ]
}
SPEC
}

# reports NAME PATTERN: the last command's stderr matches it.
reports() {
  if grep -qE -- "$2" "$work/err"; then pass "$1"; else fail "$1" "expected: $2" "$(cat "$work/err")"; fi
}

# draws NAME STATUS SPEC FLAGS...: checks with --picture; expects a well-formed picture.
draws() {
  local name=$1 status=$2 spec=$3
  shift 3
  exits "$status" "$name: check" "$sluice" check "$spec" --picture "$work/picture.svg" "$@"
  succeeds "$name: the picture is well-formed" python3 -c \
    'import sys, xml.dom.minidom as x; assert x.parse(sys.argv[1]).documentElement.tagName == "svg"' "$work/picture.svg"
}

# counts NAME CLASS EXPRESSION: marks of one class in the picture, as n.
counts() {
  if message=$(python3 - "$2" "$3" "$work/picture.svg" 2>&1 << 'PYTHON'
import sys, xml.etree.ElementTree as tree
n = sum(sys.argv[1] in e.get("class", "").split() for e in tree.parse(sys.argv[3]).iter())
if not eval(sys.argv[2]):
    sys.exit(f"{sys.argv[1]}: {n}, expected {sys.argv[2]}")
PYTHON
  ); then pass "$1"; else fail "$1" "$message"; fi
}

write_spec "$work/fine.json" '{ "op": "hourglass", "hierarchy": "2@1 4@4 2@1" },'
write_spec "$work/blind.json" '{ "op": "hourglass", "hierarchy": "0@1 4@4 0@1" },'
write_spec "$work/waste.json" '{ "op": "hourglass", "hierarchy": "1@1 4@4 1@1", "shift": 5 },'
write_spec "$work/dead.json" '{ "op": "layer" }, { "op": "layer", "from": "x" },'
write_spec "$work/window.json" '{ "op": "layer", "mask": { "window": [0, 9] } },'
write_spec "$work/leak.json" '{ "op": "hourglass", "hierarchy": "1@1 1@4 1@1", "shift": 2 },'
write_spec "$work/wide.json" '{ "op": "hourglass", "hierarchy": "1@1 1@2048 1@1" },'

# Findings
succeeds "fine layers: no advice" "$sluice" check "$work/fine.json" --strict
if [[ -s $work/err ]]; then fail "fine layers: stderr is empty" "$(cat "$work/err")"; else pass "fine layers: stderr is empty"; fi
succeeds "a blind spot is not an error" "$sluice" check "$work/blind.json"
reports "a blind spot is a warning at its location" \
  'blind\.json:5:39: warning: blind spot: rows 4m\+2 to 4m\+3 never see tokens 4m\+1 to the one before their own; put a layer'
exits 1 "--strict rejects a blind spot" "$sluice" check "$work/blind.json" --strict
reports "and reports the proof" 'proved causal, but rejected because of --strict: 1 warning'
exits 1 "--strict rejects a needless shift" "$sluice" check "$work/waste.json" --strict
reports "and reports the minimum shift" 'waste\.json:5:[0-9]+: warning: a shift by 5 where 3 is enough to be causal; .* 2 tokens newer'
exits 1 "--strict rejects a dead stage" "$sluice" check "$work/dead.json" --strict
reports "and reports its location" "dead\.json:5:5: warning: this stage's result reaches no loss"
succeeds "--strict accepts a bounded context" "$sluice" check "$work/window.json" --strict
reports "and reports it as a note" 'note: row t sees nothing older than token t-8 '
exits 1 "--strict and a leak" "$sluice" check "$work/leak.json" --strict
exits 1 "--strict --json" "$sluice" check "$work/blind.json" --strict --json
cp "$work/out" "$work/blind.verdict.json"
holds "the verdict is still proved, with its findings" \
  '((f[0]["verdict"], len(f[0]["warnings"])) == ("proved", 1) and
   [(x["kind"], x["severity"], x["line"], x["column"]) for x in f[0]["findings"]] == [("blind-spot", "warning", 5, 39)])' \
  "$work/blind.verdict.json"

# The shipped models.
for spec in "$root"/models/*.json "$root"/models/*/*.json; do
  case $spec in
    */hourglass-0@1-8@4-0@1.json | */hourglass-cifar-0@1-8@3-0@1-attention-attention_linear.json) # without fine layers, as in table 6: the paper warns of that
      exits 1 "models/${spec#"$root"/models/}: rows of a group are blind to one another" "$sluice" check "$spec" --strict
      reports "and the warning names it" 'warning: blind spot: '
      continue
      ;;
  esac
  is_representative "$spec" || continue
  succeeds "models/${spec#"$root"/models/}: --strict" "$sluice" check "$spec" --strict
done

# fixes MODEL SETTING...: the model with these settings is rejected; --fix writes a proved spec, which differs from it by the printed diff.
fixes() {
  local model=$1 name="$*" settings=()
  shift
  for setting in "$@"; do settings+=(--set "$setting"); done
  rm -f "$work/fixed.json"
  exits 1 "$name: is rejected" "$sluice" check "$root/models/$model.json" "${settings[@]}" --no-replay --no-advice
  succeeds "$name: --fix writes a spec" "$sluice" check "$root/models/$model.json" "${settings[@]}" --no-replay --fix -o "$work/fixed.json"
  succeeds "$name: the written spec is proved" "$sluice" check "$work/fixed.json" --no-advice
}

# Advice about a rejected spec: of each kind of model, with one or two mistakes.
fixes tiny/hourglass stages.1.shift=2
fixes tiny/hourglass defaults.mask=bidirectional stages.1.shift=0
fixes tiny/nested 'stages.1.shifted="output"' stages.1.shift=0
fixes tiny/losses stages.8.by=2
fixes tiny/losses stages.8.by=0 stages.1.mask=bidirectional
fixes successors/megabyte stages.5.by=6
fixes successors/megabyte stages.9.mask=bidirectional
fixes successors/spacebyte stages.7.by=0
fixes successors/spacebyte stages.5.mask=bidirectional
fixes successors/blt stages.10.mask=bidirectional stages.11.by=0
succeeds "the key of the attention, and no added shift" grep -q '"by": 1, "op": "attend"' "$work/fixed.json"
cp "$work/leak.json" "$work/linked.json" && chmod 640 "$work/linked.json" && ln -s linked.json "$work/link.json"
succeeds "--fix through a link" "$sluice" check "$work/link.json" --fix
if [[ -L $work/link.json && $(stat -c %a "$work/linked.json") == 640 ]]; then pass "keeps the link and the permissions"; else fail "keeps the link and the permissions"; fi
succeeds "and changes one number" cmp <(sed 's/"shift": 2/"shift": 3/' "$work/leak.json") "$work/linked.json"
cp "$work/leak.json" "$work/kept.json" && echo a poem > "$work/poem.txt"
exits 2 "--fix over the input spec" "$sluice" check "$work/kept.json" --fix -o "$work/kept.json"
exits 2 "--fix into a file of another kind" "$sluice" check "$work/kept.json" --fix -o "$work/poem.txt"
succeeds "and does not change the spec" cmp "$work/leak.json" "$work/kept.json"

# Pictures
draws "hourglass" 0 "$work/fine.json" --picture-row 9
counts "hourglass: tokens, two stacks, groups, coarse stack, sum, upper stack" band 'n == 6'
counts "hourglass: five groups of 20 tokens" group 'n == 5'
counts "hourglass: one shift per group that is read" shift 'n == 3'
counts "hourglass: a skip" skip 'n == 1'
counts "hourglass: every token is seen" blind 'n == 0'
counts "hourglass: no leak" leak-path 'n == 0'
if grep -q '<title>drawn &lt;&amp;&gt;: what row 9 reads</title>' "$work/picture.svg"; then
  pass "the title names model and row"
else
  fail "the title names model and row" "$(head -n 2 "$work/picture.svg")"
fi
cp "$work/picture.svg" "$work/first.svg"
draws "hourglass again" 0 "$work/fine.json" --picture-row 9
succeeds "a picture is the same each time" cmp "$work/first.svg" "$work/picture.svg"
draws "blind spot" 0 "$work/blind.json"
counts "blind spot: the two tokens" blind 'n == 2'
draws "leak" 1 "$work/leak.json"
counts "leak: the path" leak-path 'n >= 3'
counts "leak: the token" leak 'n == 1'
if grep -q '<title>drawn &lt;&amp;&gt;: row 0 reads token 1, which it must not see</title>' "$work/picture.svg" &&
  grep -q '>Advice: write "\?shift' <(sed 's/&quot;//g' "$work/picture.svg"); then
  pass "leak: the title names it, and the advice is below"
else
  fail "leak: the title names it, and the advice is below" "$(grep -E 'title|Advice' "$work/picture.svg")"
fi
# Segments: of a text, regular, and of a leak.
segments=$root/test/causality/segments
cut='{ "op": "shorten", "segments": "words" }, { "op": "layer" }, { "op": "upsample", "segments": "words" }, { "op": "add", "with": "x" },'
write_spec "$work/words.json" '{ "op": "boundaries", "name": "words", "rule": "whitespace" }, '"$cut"
write_spec "$work/predicted.json" '{ "op": "boundaries", "name": "words", "predictor": 4, "prior": 0.3 }, '"$cut"
succeeds "segments: check" "$sluice" check "$work/words.json"
reports "a row does not see the beginning of its own segment" \
  'words.json:.*blind spot: rows 4m\+1 to 4m\+2 never see tokens 4m to the one before their own; .*, with segments of 4 tokens\)'
write_spec "$work/late.json" '{ "op": "boundaries", "name": "words", "rule": "whitespace" },
    { "op": "shorten", "segments": "words" }, { "op": "shift", "by": 2 }, { "op": "upsample", "segments": "words" }, { "op": "add", "with": "x" },'
succeeds "late segments: check" "$sluice" check "$work/late.json"
reports "are late by segments" 'late.json:6:.*a shift by 2 where none is needed .* is 2 segments newer'
draws "words of a text" 0 "$work/words.json" --picture-text "the cat sat on it" --picture-row 13
counts "words of a text: means of the words" group 'n == 4'
cp "$work/picture.svg" "$work/first.svg"
draws "marked words" 0 "$work/predicted.json" --picture-text "the |cat |sat |on |it" --picture-row 13
succeeds "are those of the rule" cmp <(grep -v "<title>" "$work/first.svg") <(grep -v "<title>" "$work/picture.svg")
begun='{ "op": "shorten", "segments": "words", "method": "first" }, { "op": "layer" }, { "op": "upsample", "segments": "words" }, { "op": "add", "with": "x" },'
write_spec "$work/begun.json" '{ "op": "boundaries", "name": "words", "at": "start", "rule": "space_like" }, '"$begun"
write_spec "$work/begun-predicted.json" '{ "op": "boundaries", "name": "words", "at": "start", "predictor": 4, "rule": "space_like" }, '"$begun"
write_spec "$work/begun-every.json" '{ "op": "boundaries", "name": "words", "at": "start", "rule": "every", "factor": 8 }, '"$begun"
draws "words that begin at spaces" 0 "$work/begun.json" --picture-text "the, cat sat" --picture-row 10
cp "$work/picture.svg" "$work/first.svg"
draws "marked where they begin" 0 "$work/begun-predicted.json" --picture-text "the|, cat| sat" --picture-row 10
succeeds "are the same" cmp <(grep -v "<title>" "$work/first.svg") <(grep -v "<title>" "$work/picture.svg")
succeeds "segments that start at every eighth token: check" "$sluice" check "$work/begun-every.json"
reports "see only that token of each segment" 'begun-every.json:.*blind spot: rows 8m to 8m\+7 never see tokens 8m-31 to 8m-25; .*, with segments of 8 tokens\)'
draws "a leak of segments" 1 "$segments/words-own.json"
counts "a leak of segments: the path" leak-path 'n >= 2'
draws "a boundary that tells" 1 "$segments/counts-ahead.mlir"
exits 2 "a predictor's boundaries are not known" "$sluice" check "$work/predicted.json" --picture "$work/picture.svg" --picture-text "the cat"
reports "without marks" 'expected \| after each byte that ends a segment'
exits 2 "no text over constant factors" "$sluice" check "$work/fine.json" --picture "$work/picture.svg" --picture-text "the cat"
reports "but segments" 'expected a causal model with segments for a text, found no segments'
mkdir "$work/leaky"
for spec in "$root"/test/causality/leaky/*.json; do
  "$sluice" check "$spec" --no-replay --picture "$work/leaky/$(basename "$spec").svg" > "$work/out" 2>&1 || true
done
succeeds "every leaky spec of the corpus has a picture with a path" python3 -c '
import glob, os, sys, xml.etree.ElementTree as tree
specs, pictures = glob.glob(sys.argv[1] + "/*.json"), glob.glob(sys.argv[2] + "/*.svg")
assert len(specs) == len(pictures) > 10, (len(specs), len(pictures))
for path in pictures:
    assert any(e.get("class") == "leak-path" for e in tree.parse(path).iter()), path
' "$root/test/causality/leaky" "$work/leaky"

# Errors
rm -f "$work/picture.svg"
exits 2 "too wide a picture" "$sluice" check "$work/wide.json" --picture "$work/picture.svg"
reports "too wide a picture: the message" 'span more than the 256 tokens that a picture holds; no picture was written'
exits 2 "a row past the end" "$sluice" check "$work/fine.json" --picture "$work/picture.svg" --picture-row 256
reports "a row past the end: the message" 'expected a row below 256, found 256'
exits 2 "a negative row" "$sluice" check "$work/fine.json" --picture "$work/picture.svg" --picture-row -1
if [[ -e $work/picture.svg ]]; then fail "rejected pictures are not written"; else pass "rejected pictures are not written"; fi
exits 2 "a row without a picture" "$sluice" check "$work/fine.json" --picture-row 3
reports "a row without a picture: the message" '--picture'
exits 2 "a picture over its spec" "$sluice" check "$work/fine.json" --picture "$work/fine.json"
succeeds "and does not change the spec" "$sluice" check "$work/fine.json"
exits 2 "a picture in a missing directory" "$sluice" check "$work/fine.json" --picture "$work/none/picture.svg"
exits 2 "a picture path that is a directory" "$sluice" check "$work/fine.json" --picture "$work"
finish

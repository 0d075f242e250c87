#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Certificates and their independent checker, and the same obligations in Z3; both for every shipped or tested model.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

certify=$root/build/bin/sluice-certify
models=$root/models/tiny
corpus=$root/test/causality

# reports NAME PATTERN STATUS COMMAND...: exit status, and a message that matches.
reports() {
  local name=$1 pattern=$2
  exits "$3" "$name" "${@:4}"
  if grep -qE -- "$pattern" "$work/out" "$work/err"; then
    pass "$name: the message"
  else
    fail "$name: the message" "no match of '$pattern' in:" "$(cat "$work/out" "$work/err")"
  fi
}

# --- no file
mkfifo "$work/pipe"
reports "a pipe as certificate is rejected" 'something not a regular file; save' 2 timeout 20 "$certify" "$models/hourglass.json" "$work/pipe"
reports "a pipe as spec is rejected" 'something not a regular file; save' 2 timeout 20 "$certify" "$work/pipe" "$work/pipe"
reports "no file" 'found none; check its name' 2 "$certify" "$models/hourglass.json" "$work/missing"

# --- one spec, by hand
succeeds "a certificate is written" "$sluice" check "$models/hourglass.json" --certificate "$work/a.txt"
reports "it is certified" 'certified: causal for every length, in eval, train and generate, and step by step; [0-9]+ obligations$' 0 \
  "$certify" "$models/hourglass.json" "$work/a.txt"
reports "and enumeration of all paths agrees" 'all paths at lengths up to 12' 0 \
  "$certify" "$models/hourglass.json" "$work/a.txt" --enumerate
reports "the certificate of another spec is rejected" ':2: refused: .*sha256' 1 "$certify" "$models/nested.json" "$work/a.txt"
sed 's/^bound 13 max(-1, p - 3)$/bound 13 max(-1, p - 4)/' "$work/a.txt" > "$work/b.txt"
reports "a violated bound is rejected, with its line" 'b\.txt:[0-9]+: refused: the obligation does not hold at p - 3 = ' 1 \
  "$certify" "$models/hourglass.json" "$work/b.txt"
awk '/^keep [0-9]+ 4$/ && !done { sub(/4$/, "3"); done = 1 } { print }' "$work/a.txt" > "$work/ring.txt"
reports "a ring one row too small is rejected" 'ring\.txt:[0-9]+: refused: the obligation does not hold at p' 1 \
  "$certify" "$models/hourglass.json" "$work/ring.txt"
sed -E 's/^(schedule [0-9]+) max\(-1, 4\*p\)$/\1 max(-1, 4*p - 1)/' "$work/a.txt" > "$work/early.txt"
reports "a schedule one step early is rejected" 'early\.txt:[0-9]+: refused: the obligation does not hold at p' 1 \
  "$certify" "$models/hourglass.json" "$work/early.txt"
head -n 20 "$work/a.txt" > "$work/c.txt"
reports "a truncated certificate is rejected" ':21: refused: .*cut short' 1 "$certify" "$models/hourglass.json" "$work/c.txt"
reports "a missing certificate is bad input" 'none; check its name' 2 "$certify" "$models/hourglass.json" "$work/none"
reports "a missing argument is bad input" 'CERTIFICATE is required' 2 "$certify" "$models/hourglass.json"
reports "an invalid spec is bad input" 'a\.txt: expected a model spec, JSON, found text that is not JSON at line 1, column 1; name the spec first' 2 \
  "$certify" "$work/a.txt" "$work/a.txt"
printf '{\n  "sluice": 1,,\n' > "$work/comma.json"
reports "a mistake is reported with line and column" 'JSON at line 2, column 15;' 2 "$certify" "$work/comma.json" "$work/a.txt"
printf '{ "sluice": 1e999 }' > "$work/large.json"
reports "a number too large" 'found a number that double has no room for; correct the spec' 2 "$certify" "$work/large.json" "$work/a.txt"
sed 's/"1@1 2@4 1@1"/"1@1 2@{2,0} 1@1"/' "$models/hourglass.json" > "$work/drawn.json"
reports "a sampled factor of 0 is rejected" 'expected at most 63 levels LAYERS@FACTOR' 2 "$certify" "$work/drawn.json" "$work/a.txt"
succeeds "--help" "$certify" --help

# --- written and missing certificates
exits 1 "a leak has no certificate" "$sluice" check "$corpus/leaky/bidirectional.json" --certificate "$work/leak.txt"
if [[ -e $work/leak.txt ]]; then fail "no certificate is written"; else pass "no certificate is written"; fi
reports "the spec is not overwritten" 'one that this command reads' 2 "$sluice" check "$models/vanilla.json" --certificate "$models/vanilla.json"
reports "nor is a device" 'something not a regular file' 2 "$sluice" check "$models/vanilla.json" --smt /dev/full
reports "two outputs with one name are rejected" 'expected different files for --certificate and --smt' 2 \
  "$sluice" check "$models/vanilla.json" --smt "$work/x" --certificate "$work/x"
model_ir=$(find "$corpus" -name '*.mlir' | sort | sed -n 1p)
reports "model IR has no certificate" 'found model IR' 2 "$sluice" check "$model_ir" --certificate "$work/x"
# --- segments that depend on data
reports "closed segments are proved" 'proved causal for every length, in eval, train and generate' 0 "$sluice" check "$corpus/segments/words.json"
# Each leak named in issues and papers, shown by a replay, with the model that repairs it.
shown='replay of the compiled program: with token [0-9]+ changed.*loss changed by'
while read -r leak twin; do
  reports "$leak is reported" "$shown" 1 "$sluice" check "$corpus/segments/$leak"
  reports "$twin is proved" 'proved causal' 0 "$sluice" check "$corpus/segments/$twin"
done <<'END'
own-segment.mlir closed.mlir
counts-swapped.mlir counts-swapped-late.mlir
rule-ahead.mlir rule-ahead-late.mlir
mean-of-begun.mlir mean-of-begun-closed.mlir
words-null-dropped.json words-null.json
words-from-ahead.json words-from-behind.json
smoothed-backwards.mlir smoothed.mlir
attend-ahead.mlir attend-behind.mlir
labels-forward.mlir labels-of-a-loss.mlir
spikes-forward.mlir spikes-learned.json
nested-own-segment.mlir nested.mlir
words-own-rows.json words-given.json
words-given-own.json words-given.json
recurrence-own.json recurrence-given.json
END
reports "labels of the data as boundaries are rejected" "labels come from data that may look ahead" 1 "$sluice" check "$corpus/segments/labels-own.json"
reports "the replay uses other labels" 'replay of the reference: with token [0-9]+ changed.*changed by up to' 1 "$sluice" check "$corpus/segments/labels-own.json"
reports "a predictor learns them" 'proved causal' 0 "$sluice" check "$corpus/segments/labels.json" --certificate "$work/learned.txt"
reports "and is certified" 'certified: causal' 0 "$certify" "$corpus/segments/labels.json" "$work/learned.txt"
reports "a certificate of a predictor does not certify labels" 'learned\.txt|labels-own' 2 "$certify" "$corpus/segments/labels-own.json" "$work/learned.txt"
sed 's/, "predictor": 4//' "$corpus/segments/spikes-learned.json" > "$work/cycle.json"
reports "a later loss as boundaries is rejected" 'cycle\.json:6:.*found that of .*cycle\.json:11:5, .*a cycle;' 2 "$sluice" check "$work/cycle.json"
succeeds "labels of the head's own entropy are proved" "$sluice" check "$corpus/segments/spikes-learned.json" --certificate "$work/later.txt"
reports "the checker rejects it too" 'an earlier loss' 2 "$certify" "$work/cycle.json" "$work/later.txt"
reports "a row's own segment leaks" 'own-segment.mlir:17:.*row 0, which predicts token 1, reads token 1 where boundaries are at 1;' 1 \
  "$sluice" check "$corpus/segments/own-segment.mlir" --no-replay
reports "a boundary read ahead leaks" 'counts-ahead.mlir:17:.*reads token 1 where boundaries' 1 \
  "$sluice" check "$corpus/segments/counts-ahead.mlir" --no-replay
reports "the replay forces the bits of the witness" 'replay of the compiled program: with token 1 changed and the bit at 1 that is predicted from it, row 0' 1 \
  "$sluice" check "$corpus/segments/counts-ahead.mlir"
for name in phrases-own pairs-of-own-words parts-of-own-pairs spacebyte-own starts-own hnet-own blt-own spikes-own attend-own byteflow-own maxima-own; do
  reports "$name is reported" "replay of the compiled program: with token [0-9]+ changed.*loss changed by" 1 "$sluice" check "$corpus/segments/$name.json"
done
sed 's/"threshold": 0.1/"top": 0.25/' "$corpus/segments/byteflow.json" > "$work/byteflow-top.json"
reports "no replay forces a bit in the first row" 'the path exists, but with token 1 changed row 0 stayed the same' 1 \
  "$sluice" check --no-advice "$work/byteflow-top.json"
sed -i 's/, "at": "start"//; s/"first"/"last"/' "$work/byteflow-top.json"
reports "maximum rates of the complete text are reported" "replay of the compiled program: with token [0-9]+ changed and the bit .*loss changed by" 1 \
  "$sluice" check --no-advice "$work/byteflow-top.json"
# The first leak changes no number: the program runs a longer sequence, or a later row, that changes
# one.
reports "a longer sequence is replayed where zeros hide the path" \
  "replay of the compiled program: with the sequence continued to token 5, row 3's loss changed by" 1 \
  "$sluice" check --no-advice "$corpus/leaky/zeros-hide-the-path.json"
cat > "$work/later-row.json" << 'SPEC'
{ "sluice": 1, "vocabulary": 11, "context": 64, "batch": 1, "width": 4, "stages": [ { "op": "embedding" }, { "op": "shorten", "factor": 2 },
  { "op": "boundaries", "name": "w", "rule": "coding_rate", "threshold": 0.5, "at": "start" },
  { "op": "shorten", "segments": "w", "method": "max" },
  { "op": "boundaries", "name": "v", "rule": "coding_rate", "threshold": 0.5, "at": "start" },
  { "op": "shorten", "segments": "v", "method": "first" }, { "op": "upsample", "segments": "v", "by": 1 },
  { "op": "upsample", "segments": "w", "by": 2 }, { "op": "upsample", "factor": 2 }, { "op": "head" } ] }
SPEC
reports "a later row is replayed where the first bit is always set" \
  "replay of the compiled program: with token 5 changed and the bit at 2 that is predicted from it, row 4's loss changed by" 1 \
  "$sluice" check --no-advice "$work/later-row.json"
cat "$work/out" "$work/err" > "$work/later-row.txt"
succeeds "and its path is printed" awk '/from token 5 to row 4:/ { getline; found = /^    .*: position 5 into / } END { exit !found }' \
  "$work/later-row.txt"
for name in byteflow maxima recurrence-given spikes spikes-learned; do
  reports "$name is proved" 'proved causal' 0 "$sluice" check "$corpus/segments/$name.json" --certificate "$work/$name.txt"
  reports "$name is certified, with its step" 'certified: causal.*step by step' 0 "$certify" "$corpus/segments/$name.json" "$work/$name.txt"
done
succeeds "no pass adds a dependence to segments" "$sluice" compile "$corpus/segments/phrases.json" --verify-each-causality -o "$work/x.sla"
succeeds "a certificate of a model with segments is written" "$sluice" check "$corpus/segments/words-late.json" --certificate "$work/words.txt"
reports "it is certified" 'certified: causal for every length, .*, and step by step, for all boundaries that its axes have rows for; ' 0 \
  "$certify" "$corpus/segments/words-late.json" "$work/words.txt"
sed 's/^schedule 16 max(-1, 0, e4(p - 1))$/schedule 16 max(-1, 0, e4(p - 2))/' "$work/words.txt" > "$work/early-row.txt"
reports "a row before its segment closes is rejected" 'early-row\.txt:[0-9]+: refused: the obligation does not hold for all boundaries' 1 \
  "$certify" "$corpus/segments/words-late.json" "$work/early-row.txt"
succeeds "segments of segments have a step" "$sluice" check "$corpus/segments/phrases.json" --certificate "$work/phrases.txt"
reports "and are certified with it" 'in eval, train and generate, and step by step, for all boundaries' 0 "$certify" "$corpus/segments/phrases.json" "$work/phrases.txt"
for early in 'e4(e21(p - 1))' 'e21(p)' 'e21(e4(p))' 'e4(p)'; do # of the outer segments' ends and rows
  sed "s/^\\(schedule 2[12]\\) max(-1, e4(e21(p)))\$/\\1 max(-1, $early)/" "$work/phrases.txt" > "$work/early-outer.txt"
  reports "outer rows at $early are rejected" 'early-outer\.txt:[0-9]+: refused: (its rows wait for ends that no step knows|the obligation does not hold)' 1 \
    "$certify" "$corpus/segments/phrases.json" "$work/early-outer.txt"
done
sed 's/^bound 5 max(-1, e4(p))$/bound 5 max(-1, e4(p - 1))/' "$work/words.txt" > "$work/early-end.txt"
reports "a bound before a segment's end is rejected" 'early-end\.txt:[0-9]+: refused: the obligation does not hold for all boundaries' 1 \
  "$certify" "$corpus/segments/words-late.json" "$work/early-end.txt"
reports "the checker does not enumerate boundaries" 'expected scales of constant factors for --enumerate' 2 \
  "$certify" "$corpus/segments/words-late.json" "$work/words.txt" --enumerate
succeeds "compile" "$sluice" compile "$models/hourglass.json" -o "$work/model.sla"
succeeds "extract" "$sluice" inspect "$work/model.sla" --extract "$work/parts"
succeeds "inspect extracts the certificate of an artifact" cmp "$work/parts/certificate.txt" "$work/a.txt"
succeeds "the extracted certificate certifies the extracted spec" "$certify" "$work/parts/spec.json" "$work/parts/certificate.txt"

# --- independence
readelf=$(command -v llvm-readelf-22 llvm-readelf readelf | head -n 1 || true)
"$readelf" -d "$certify" | grep NEEDED > "$work/needed"
if grep -Eiq 'llvm|mlir|sluice' "$work/needed" || ! grep -q NEEDED "$work/needed"; then
  fail "the checker links no library of the compiler" "$(cat "$work/needed")"
else
  pass "the checker links no library of the compiler"
fi
sources=("$root"/tools/sluice-certify/*.cpp "$root"/tools/sluice-certify/*.h)
if grep -nE 'include "(sluice|mlir|llvm)/|include <(mlir|llvm)' "${sources[@]}" > "$work/includes"; then
  fail "the checker includes no header of the compiler" "$(cat "$work/includes")"
else
  pass "the checker includes no header of the compiler"
fi
if (($(cat "${sources[@]}" | wc -l) < 3800)); then pass "the checker has fewer than 3,800 lines"; else fail "the checker has fewer than 3,800 lines"; fi

# --- in time linear in the model: 3,000 layers
sed 's/"1@1 2@4 1@1"/"1000@1 1000@4 1000@1"/' "$root/models/tiny/hourglass.json" > "$work/deep.json"
succeeds "3,000 layers: a certificate in 20 s" timeout 20 "$sluice" check "$work/deep.json" --no-advice --certificate "$work/deep"
succeeds "3,000 layers: verified in 20 s" timeout 20 "$root/build/bin/sluice-certify" "$work/deep.json" "$work/deep"

# --- every shipped or tested model
mkdir "$work/compared"
if python3 "$root/test/e2e/support/compare_checkers.py" "$root" "$work/compared" > "$work/out" 2>&1; then
  pass "prover, checker and Z3 agree about $(tail -n 1 "$work/out")"
else
  fail "prover, checker and Z3 agree" "$(cat "$work/out")"
fi
finish

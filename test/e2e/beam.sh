#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Beam search for users: the texts of the rule, the same with and without a cache and next to other texts; rejected flags.
# shellcheck disable=SC2317 # succeeds and exits call these functions
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

# model NAME SPEC FLAGS...: an artifact and its initial weights.
model() {
  local name=$1 spec=$2
  shift 2
  succeeds "$name: compile" "$sluice" compile "$spec" -o "$work/$name.sla" --target cpu-avx2 "$@"
  succeeds "$name: weights" "$sluice" train "$work/$name.sla" --steps 0 --seed 3 --out "$work/$name"
}
# write FILE NAME FLAGS...: what `generate --json` prints.
write() {
  local file=$work/$1 name=$2
  shift 2
  "$sluice" generate "$work/$name.sla" --weights "$work/$name" --json "$@" > "$file" 2> "$work/err" ||
    fail "generate $*" "$(tail -n 3 "$work/err")"
}
same() { succeeds "$1" cmp "$work/$2" "$work/$3"; }
# refuses NAME PATTERN FLAGS...: exit status 2 and a message.
refuses() {
  local name=$1 pattern=$2
  shift 2
  exits 2 "$name" "$sluice" generate "$work/words.sla" --weights "$work/words" "$@"
  cp "$work/err" "$work/said"
  succeeds "$name: the message" grep -qE -- "$pattern" "$work/said"
}

cat > "$work/plain.json" << JSON
{ "sluice": 1, "vocabulary": 7, "context": 14, "batch": 1, "width": 8,
  "defaults": { "heads": 2, "feed_forward": 12, "activation": "relu" },
  "stages": [ { "op": "embedding" }, { "op": "layer" }, { "op": "head" } ] }
JSON
succeeds "plain: compile" "$sluice" compile "$work/plain.json" -o "$work/plain.sla" --target cpu-avx2
succeeds "200 models write the texts of the rule" python3 "$root/test/e2e/support/beam_search.py" "$sluice" "$work/plain.sla" "$work" 200

# Segments of words, whose bits differ among the hypotheses of a text.
cat > "$work/words.json" << JSON
{ "sluice": 1, "vocabulary": 128, "context": 40, "batch": 1, "width": 16,
  "defaults": { "heads": 2, "feed_forward": 16 },
  "stages": [ { "op": "embedding" }, { "op": "layer", "to": "fine" },
    { "op": "boundaries", "name": "words", "rule": "whitespace" },
    { "op": "shorten", "segments": "words" }, { "op": "shift", "by": 1, "start": "null" }, { "op": "layer" },
    { "op": "upsample", "segments": "words", "by": 0 }, { "op": "add", "with": "fine" }, { "op": "head" } ] }
JSON
model words "$work/words.json" --generation-rows 6
model hourglass "$root/models/tiny/hourglass.json"
model copy "$root/models/tiny/copy.json"
printf 'To be\nor not to be\nthat\n' > "$work/prompts"
printf 'one\ntwo three\nfour five six\nseven\n' > "$work/lines"
beam=(--beam 3 --max-tokens 20 --no-repeat 2)
for name in words hourglass; do
  write cached "$name" --prompt-file "$work/prompts" "${beam[@]}"
  write recomputed "$name" --prompt-file "$work/prompts" "${beam[@]}" --no-cache
  write alone "$name" --prompt 'or not to be' "${beam[@]}"
  strip() { python3 -c 'import json, sys
for line in sys.stdin: print({key: value for key, value in json.loads(line).items() if key != "score"})' < "$work/$1" > "$work/$1.texts"; }
  strip cached; strip recomputed
  same "$name: the same texts without a cache" cached.texts recomputed.texts
  sed -n 2p "$work/cached" > "$work/second"
  same "$name: a text is the same alone" alone second
  write greedy "$name" --prompt 'To be' -t 0 -n 20 --no-echo
  write one "$name" --prompt 'To be' --beam 1 --max-tokens 20
  holds "$name: a beam of 1 is greedy" 'f[0]["text"] == f[1]["text"]' "$work/greedy" "$work/one"
done
# An encoder's lines, each with a search of its own; the line end is the end.
write all copy --input "source=$work/lines" "${beam[@]:0:2}" --max-tokens 12 --min-tokens 2
for line in 1 2 3 4; do
  sed -n "${line}p" "$work/lines" > "$work/line"
  sed -n "${line}p" "$work/all" > "$work/expected"
  write alone copy --input "source=$work/line" "${beam[@]:0:2}" --max-tokens 12 --min-tokens 2
  same "copy: line $line is the same alone" alone expected
done

refuses "too wide a beam" 'at most 6, the rows .* --generation-rows 7' --beam 7
refuses "a beam that no artifact has rows for" 'found 65; .* --no-cache' --beam 65
refuses "a limit past the context" 'context of 40 bytes .* prompt of 5 for text 1, after which 36 .* maximum of 37' -p 'To be' --beam 2 --max-tokens 37
refuses "two limits" 'one maximum number of tokens' --beam 2 --max-tokens 3 --tokens 4
refuses "a temperature" 'expected no --temperature with --beam' --beam 2 --temperature 0
refuses "a session" 'expected no --save-session with --beam' --beam 2 --save-session "$work/session"
refuses "an end of two tokens" 'the text of one token with --beam, found "ab", which is 2' --beam 2 --stop ab
refuses "two ends" 'one stop text with --beam, found 2' --beam 2 --stop a --stop b
refuses "an end outside the vocabulary" 'below the vocabulary of 128, found 128' --beam 2 --end-token 128
refuses "a minimum without an end" '--min-tokens: expected a token that ends' --beam 2 --min-tokens 3
refuses "a minimum at the limit" 'fewer than the maximum of 9 tokens' --beam 2 --stop a --min-tokens 9 --max-tokens 9
refuses "a negative penalty" '--length-penalty: expected a finite penalty of at least 0' --beam 2 --length-penalty -1
refuses "a penalty without a beam" '--beam' --length-penalty 1
finish

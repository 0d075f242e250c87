#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# What an op costs: docs/adding-an-op.md lists the files that name each of some ops, and no other does.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

# named PATTERN: the sources that name it, tests and documents apart
named() {
  (cd "$root" && grep -rlE "$1" include lib runtime tools | sort)
}
# listed HEADING: the files of the document's list under a line that begins so
listed() {
  awk -v heading="$1" 'index($0, heading) == 1 { on = 1; next } on && /^- `/ { split($0, part, "`"); print part[2] }
                       on && /^The / { on = 0 }' "$root/docs/adding-an-op.md" | sort
}
# costs NAME HEADING PATTERN [MOST]: of these files, at most MOST
costs() {
  if [[ $(named "$3") == "$(listed "$2")" && -n $(named "$3") ]] && (($(named "$3" | wc -l) <= ${4:-99})); then
    pass "$1"
  else
    fail "$1" "$(diff <(listed "$2") <(named "$3"))" "mend docs/adding-an-op.md, or what needs to know"
  fi
}

costs "the files that name a group's maximum" "The maximum of a group" \
  'Shortening::Max|ShortenMax|shorten_max|"average", "linear", "max"' 8
costs "the files that name the square of ReLU" "The square of ReLU" 'ReluSquared|relu_squared' 4
costs "the files that name attention by hashes" "The attention by hashes" 'HashedAttention|hashed_attention'
costs "the files that name what moves rows between a scale and its segments" "The three ops" \
  '(Pool|Select|Spread)Segments|(pool|select|spread)_segments'
costs "the files that name a scatter of rows" "The scatter of rows" 'ScatterRows|scatter_rows|judgeScatter|generateScatter'

# Analyses and passes ask interfaces; only the words of messages and pictures go by the kind of op, and so do messages about ops that
# do not compile. Stages of specs (spec::) are no ops of a model.
switching=$(cd "$root" && grep -rlE '(isa|cast)[a-z_]*<([^>]*[ ,])?(Shorten|Hashed)' lib --exclude-dir=Spec | sort | xargs)
if [[ $switching == "lib/Analysis/LeakWords.cpp lib/Analysis/PictureBands.cpp lib/Driver/Limits.cpp" ]]; then
  pass "no analysis asks for the op that shortens, or that attends by hashes"
else
  fail "no analysis asks for the op that shortens, or that attends by hashes" "$switching"
fi
finish

#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The cost of an op: docs/adding-an-op.md lists the files that name each of some ops, and no other file does. Two additions to
# specs are patches (op-cost/): they apply to a copy, and change the listed files.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

# named PATTERN: the sources that name it, without tests and documents
named() {
  (cd "$root" && grep -rlE "$1" include lib runtime tools | sort)
}
# listed HEADING: the files of the document's list under a line that starts with it
listed() {
  awk -v heading="$1" 'index($0, heading) == 1 { on = 1; next } on && /^- `/ { split($0, part, "`"); print part[2] }
                       on && /^The / { on = 0 }' "$root/docs/adding-an-op.md" | sort
}
# costs NAME HEADING PATTERN [MOST]: compares these files, at most MOST
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
costs "the files that name LSH attention" "The LSH attention" 'HashedAttention|hashed_attention'
costs "the files that name ops between a scale and its segments" "The three ops" \
  '(Pool|Select|Spread)Segments|(pool|select|spread)_segments'
costs "the files that name a scatter of rows" "The scatter of rows" 'ScatterRows|scatter_rows|judgeScatter|generateScatter'

costs "the files that name a composite stage" "The stage" 'MegabyteOp|W::patches' 4

# declared STAGE: its keys and, apart from `op`, `frozen` and `share`, the keys of all stages, by the declarations in $scratch
declared() {
  "$root/build/bin/sluice-tblgen" -gen-spec-keys -I "$scratch/include" -I "$root/include" -I /usr/lib/llvm-22/include \
    "$root/include/sluice/Dialect/Spec/Spec.td" \
    | awk -v stage="\"$1\"," '$2 == stage { on = 1; next } /^}},/ { on = 0 } on && /^    {/ { gsub(/[{",]/, "", $1); print $1 }' \
    | grep -vxE 'op|frozen|share' | sort
}
# checked STAGE: the keys of its row in the independent checker
checked() {
  sed -nE 's/^ *\{"'"$1"'", \{"([a-z_ ]+)".*/\1/p' "$scratch/tools/sluice-certify/Composites.cpp" | tr ' ' '\n' | sort
}
# trial PATCH HEADING STAGE KEY: the patch applies, touches the sources under the heading and adds a test; the declarations give
# the stage's KEY, and the checker's row has the same keys. It is not compiled here.
trial() {
  local patch="$root/test/e2e/op-cost/$1.patch" files
  scratch="$work/$1"
  files=$(sed -nE 's|^\+\+\+ b/||p' "$patch" | sort)
  mkdir "$scratch"
  (cd "$root" && for file in $files; do [[ ! -e $file ]] || cp --parents "$file" "$scratch"; done)
  if ! (cd "$scratch" && git apply "$patch") 2> "$work/refused"; then
    fail "$2" "$(cat "$work/refused")" "write the patch anew: the files it touches have changed"
  elif [[ $(grep -v ^test/ <<< "$files") != "$(listed "$2")" || $files != *test/Conversion/ExpandComposites/*.mlir* ]]; then
    fail "$2" "$(diff <(listed "$2") <(grep -v ^test/ <<< "$files"))" "mend docs/adding-an-op.md, or what needs to know"
  elif ! declared "$3" | grep -qx "$4" || [[ $(declared "$3") != "$(checked "$3")" ]]; then
    fail "$2" "$(diff <(declared "$3") <(checked "$3"))" "give the stage's row the keys of its declaration"
  else
    pass "$2"
  fi
}
trial key "The trial of a new key" dynamic by
trial stage "The trial of a new composite stage" sandwich factor

# Analyses and passes use interfaces; only the words of messages and pictures depend on the kind of op, as do messages about ops that
# do not compile. Stages of specs (spec::) are not ops of a model.
switching=$(cd "$root" && grep -rlE '(isa|cast)[a-z_]*<([^>]*[ ,])?(Shorten|Hashed)' lib --exclude-dir=Spec | sort | xargs)
if [[ $switching == "lib/Driver/Limits.cpp lib/Explain/LeakWords.cpp lib/Picture/PictureBands.cpp" ]]; then
  pass "no analysis tests for the op of shortening or of LSH attention"
else
  fail "no analysis tests for the op of shortening or of LSH attention" "$switching"
fi
finish

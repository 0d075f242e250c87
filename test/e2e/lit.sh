#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The lit tests are the dialects' manual: one of them round-trips every op, one expects every numbered message of a
# verifier, whose constraint is in a description, and one runs every pass.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

# lacks FILES...: the names (of stdin, one per line) that no line of the files (options of grep too) has, as complete
# words.
# shellcheck disable=SC2317 # expect_none calls it, and the next
lacks() {
  local name
  while read -r name; do
    grep -qrE "$@" -e "(^|[^A-Za-z0-9_.-])${name//./\\.}($|[^A-Za-z0-9_-])" || echo "$name"
  done
}

# silent FILES...: the texts (of stdin, one per line) that no expected error and no check of the files
# has.
# shellcheck disable=SC2317
silent() {
  local text stated
  stated=$(grep -rhE "$@" -e 'expected-error|CHECK|^[A-Z-]+: ')
  while read -r text; do
    [[ $stated == *"$text"* ]] || echo "$text"
  done
}

# expect_none FINDER NAME FILES...: the finder reports none of the names of stdin, and there are
# some.
expect_none() {
  local finder=$1 label=$2 names missing
  shift 2
  names=$(cat)
  missing=$($finder "$@" <<< "$names")
  if [[ $(wc -l <<< "$names") -lt 5 ]]; then
    fail "$label" "only $(wc -l <<< "$names") names were found"
  elif [[ -n $missing ]]; then
    fail "$label" "missing: ${missing//$'\n'/, }"
  else
    pass "$label"
  fi
}

# A definition may continue over lines, so joins these first.
for dialect in Sluice Dispatch Plan; do
  ops=$(cat "$root/include/sluice/Dialect/$dialect"/*.td | tr '\n' ' ' \
    | grep -oE 'def [A-Za-z_]+ *: *[A-Za-z_]+<"[a-z_]+"' | sed -E 's/.*"([a-z_]+)"/'"${dialect,,}"'.\1/')
  grep -rlZE 'RUN: sluice-opt %s \| sluice-opt \|' "$root/test/Dialect/$dialect" | xargs -0 grep -h CHECK > "$work/$dialect"
  expect_none lacks "round trip of every op of $dialect" "$work/$dialect" <<< "$ops"
done
ops=$("$root/build/bin/sluice-tblgen" -gen-spec-keys -I "$root/include" -I /usr/lib/llvm-22/include "$root/include/sluice/Dialect/Spec/Spec.td" \
  | sed -nE 's/^\{"Spec_[A-Za-z]+Op", "([a-z_]+)".*/spec.\1/p')
grep -h CHECK "$root/test/Dialect/Spec/roundtrip.mlir" > "$work/spec"
expect_none lacks "round trip of every op of Spec" "$work/spec" <<< "$ops"
# Uses the first words of a message, as one number may have several messages.
messages=$(grep -rhoE '"[DPRS]-[0-9]{3}: [^"]{1,28}' "$root/lib" | tr -d '"' | sed 's/[^A-Za-z0-9]*$//' | sort -u)
expect_none silent "every message of a verifier" "$root/test" --include=*.mlir --include=*.test <<< "$messages"
# Descriptions of ops list the constraint of each number.
numbers=$(grep -rhoE '"[DPRS]-[0-9]{3}: ' "$root/lib" | tr -d '": ' | sort -u)
expect_none lacks "description of every numbered constraint" "$root/docs/dialects" <<< "$numbers"
succeeds "each op's description lists the constraints that the op checks" "$root/scripts/check_constraints.py"
passes=$(sed -nE 's/^def [A-Za-z]+ *: *[A-Za-z]*Pass<"([a-z-]+)".*/--\1/p' "$root"/include/sluice/{Conversion,Transforms,Target}/Passes.td)
expect_none lacks "every pass" "$root/test/Conversion" "$root/test/Transforms" "$root/test/Target" --include=*.mlir <<< "$passes"
finish

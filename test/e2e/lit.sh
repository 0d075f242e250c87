#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The lit tests are the dialects' manual: every op reads back as it is printed in one of them, every numbered message of a
# verifier is expected by one, and every pass has one that runs it.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

# lacks FILES...: the names (of stdin, one a line) that no line of the files (options of grep too) has, as whole words.
lacks() {
  local name
  while read -r name; do
    grep -qrE "$@" -e "(^|[^A-Za-z0-9_.-])${name//./\\.}($|[^A-Za-z0-9_-])" || echo "$name"
  done
}

# covered NAME FILES...: none of the names of stdin lacks, and there are some.
covered() {
  local label=$1 names missing
  shift
  names=$(cat)
  missing=$(lacks "$@" <<< "$names")
  if [[ $(wc -l <<< "$names") -lt 5 ]]; then
    fail "$label" "only $(wc -l <<< "$names") names were found"
  elif [[ -n $missing ]]; then
    fail "$label" "missing: ${missing//$'\n'/, }"
  else
    pass "$label"
  fi
}

for dialect in Sluice Dispatch Plan; do
  ops=$(sed -nE 's/^def [A-Za-z_]+ *: *[A-Za-z_]+<"([a-z_]+)".*/'"${dialect,,}"'.\1/p' "$root/include/sluice/Dialect/$dialect"/*.td)
  covered "round trip of every op of $dialect" "$root/test/Dialect/$dialect" --include=ops.mlir --include=step.mlir --include=hashed.mlir --include=labels.mlir <<< "$ops"
done
messages=$(grep -rhoE '"[DPS]-[0-9]{3}: ' "$root/lib" | tr -d '": ' | sort -u)
covered "every message of a verifier" "$root/test" --include=*.mlir --include=*.test <<< "$messages"
passes=$(sed -nE 's/^def [A-Za-z]+ *: *[A-Za-z]*Pass<"([a-z-]+)".*/--\1/p' "$root"/include/sluice/{Transforms,Target}/Passes.td)
covered "every pass" "$root/test/Transforms" "$root/test/Target" --include=*.mlir <<< "$passes"
finish

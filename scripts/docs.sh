#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Writes docs/dialects/, docs/passes.md and docs/keys.md from TableGen, and the tables after "<!-- keys NAME -->" of docs/spec.md and
# docs/segments.md. Needs build/bin/sluice-tblgen.
# Usage: scripts/docs.sh [--check]     --check writes nothing and fails where a page differs from its source
set -euo pipefail
. "$(dirname "$0")/common.sh"

check=
case ${1-} in
  "") ;;
  --check) check=1 ;;
  *) die "unknown argument '$1'; usage: scripts/docs.sh [--check]" ;;
esac

pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
include=(-I "$root/include" -I /usr/lib/llvm-22/include)
for source in Dispatch/Dispatch Plan/Plan Sluice/Gradients Spec/Spec; do # which includes all others of Sluice
  dialect=${source%/*}
  "$llvm_bin/mlir-tblgen" -gen-dialect-doc "-dialect=${dialect,,}" "${include[@]}" \
    "$root/include/sluice/Dialect/$source.td" > "$pages/${dialect,,}.md"
done
for folder in Conversion Transforms Target; do
  "$llvm_bin/mlir-tblgen" -gen-pass-doc "${include[@]}" "$root/include/sluice/$folder/Passes.td"
done > "$pages/passes.md"

[[ -x $build/bin/sluice-tblgen ]] || die "expected $build/bin/sluice-tblgen, found none; run scripts/build.sh"
"$build/bin/sluice-tblgen" -gen-spec-docs "${include[@]}" "$root/include/sluice/Dialect/Spec/Spec.td" > "$pages/keys.md"
# with_tables PAGE: the page with every table after a line "<!-- keys NAME -->" replaced by the table of keys.md.
with_tables() {
  awk '
    /^<!-- keys / { name = $3 }
    FILENAME == ARGV[1] { if (/^\|/) table[name] = table[name] $0 "\n"; next }
    /^<!-- keys / {
      if (!(name in table)) { print "unknown table " name > "/dev/stderr"; exit 1 }
      printf "%s\n%s", $0, table[name]
      inside = 1
      next
    }
    inside && /^\|/ { next }
    { inside = 0; print }' "$pages/keys.md" "$1"
}
for name in spec segments; do
  with_tables "$root/docs/$name.md" > "$pages/tables.$name.md"
done

for page in "$pages"/*.md; do
  name=$(basename "$page")
  target=$root/docs/dialects/$name
  case $name in
    passes.md | keys.md) target=$root/docs/$name ;;
    tables.*) target=$root/docs/${name#tables.} ;;
  esac
  if [[ -z $check ]]; then
    cp "$page" "$target"
  elif ! cmp -s "$page" "$target"; then
    die "${target#"$root/"} differs from TableGen; run scripts/docs.sh"
  fi
done

#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Writes docs/dialects/ and docs/passes.md from TableGen.
# Usage: scripts/docs.sh [--check]     --check writes nothing and fails where a page differs from what it describes
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
for source in Dispatch/Dispatch Plan/Plan Sluice/Labels; do # which includes Hashed.td, Step.td and Sluice.td
  dialect=${source%/*}
  "$llvm_bin/mlir-tblgen" -gen-dialect-doc "-dialect=${dialect,,}" "${include[@]}" \
    "$root/include/sluice/Dialect/$source.td" > "$pages/${dialect,,}.md"
done
for folder in Transforms Target; do
  "$llvm_bin/mlir-tblgen" -gen-pass-doc "${include[@]}" "$root/include/sluice/$folder/Passes.td"
done > "$pages/passes.md"

for page in "$pages"/*.md; do
  name=$(basename "$page")
  target=$root/docs/dialects/$name
  [[ $name == passes.md ]] && target=$root/docs/passes.md
  if [[ -z $check ]]; then
    cp "$page" "$target"
  elif ! cmp -s "$page" "$target"; then
    die "${target#"$root/"} differs from TableGen; run scripts/docs.sh"
  fi
done

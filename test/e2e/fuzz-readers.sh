#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Every reader of files and messages takes its seeds and 3 s of mutations of them without a finding (test/fuzz-readers).
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

if [[ ! -x $root/build/bin/sluice-fuzz-readers ]]; then
  fail "the fuzzers were built" "install libclang-rt-22-dev, as scripts/setup.sh does"
  finish
fi
mapfile -t readers < <("$root/build/bin/sluice-fuzz-readers" --readers)
"$root/scripts/fuzz-readers.sh" --seconds 3 --jobs 2 --corpus "$work/corpus" > "$work/lines" || true
for reader in "${readers[@]}"; do
  if grep -qE "^$reader: [1-9][0-9]* executions" "$work/lines"; then
    pass "$reader"
  else
    fail "$reader" "$(grep -A 3 "^$reader:" "$work/lines")" "$(tail -n 30 "$work/corpus/reader-$reader.log")"
  fi
done
exits 2 "an unknown reader" "$root/scripts/fuzz-readers.sh" nothing
finish

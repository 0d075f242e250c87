#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The C interface: its symbols, its example, and the same results as the command line.
# shellcheck disable=SC2317 # succeeds and exits call these functions
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

library=$root/build/lib/libsluice.so
export SLUICE_CPU_TARGET=cpu-avx2

nm -D --defined-only "$library" | awk '{ print $3 }' | sort > "$work/exported"
grep -o '\bsluice_[a-z_]*(' "$root/include/sluice/sluice.h" | tr -d '(' | sort -u > "$work/declared"
succeeds "the library exports the functions of the header alone" diff "$work/declared" "$work/exported"
readelf -d "$library" "$root/build/lib/libsluice_runtime.so" | grep NEEDED > "$work/needed"
exits 1 "and needs no other allocator" grep -qE 'jemalloc|tcmalloc|mimalloc' "$work/needed"

succeeds "the example in C compiles" clang-22 -std=c99 -Wall -Wextra -Werror -pedantic "$root/examples/train.c" -I"$root/include" \
  -L"$root/build/lib" -lsluice -Wl,-rpath,"$root/build/lib" -o "$work/train"
python3 -c 'import random
random.seed(5)
print(" ".join(random.choice(["the", "water", "runs", "one", "way", "only"]) for _ in range(3000)))' > "$work/text"
head -c 1000 "$work/text" > "$work/held"
succeeds "the example trains" "$work/train" "$root/models/tiny/vanilla.json" "$work/text" 3 "$work/weights" "the "
cp "$work/out" "$work/told"
artifact=$work/weights.sla
succeeds "eval of its weights" "$sluice" eval "$artifact" --weights "$work/weights" --data "$work/held" --json -j 2
cp "$work/out" "$work/eval.json"
awk '$1 == "eval" { printf "[%s, %s]", $2, $3 }' "$work/told" > "$work/nats.json"
holds "the same nats" '[f[0]["nats"], f[0]["tokens"]] == f[1]' "$work/eval.json" "$work/nats.json"
generate() { "$sluice" generate "$artifact" --weights "$work/weights" --prompt-tokens "116 104 101 32" --tokens 100 --seed 7 --no-echo -j 2; }
succeeds "generate with its weights" generate
awk '$1 == "tokens"' "$work/told" | cut -d ' ' -f 2- | tr -d '\n ' > "$work/drawn"
tr -d '\n ' < "$work/out" > "$work/generated"
succeeds "the same tokens" cmp "$work/generated" "$work/drawn"
"$sluice" compile "$root/models/tiny/vanilla.json" -o "$work/other.sla" > "$work/log" 2>&1
succeeds "the same artifact" cmp "$artifact" "$work/other.sla"

exits 2 "a missing spec" "$work/train" "$work/none.json" "$work/text" 1 "$work/none"
exits 2 "another kind of file" "$work/train" "$artifact" "$work/text" 1 "$work/none"
exits 4 "a leak" "$work/train" "$root/test/causality/leaky/attention-bidirectional.json" "$work/text" 1 "$work/none"
sed 's/"heads": 4/"heads": 5/' "$root/models/tiny/vanilla.json" > "$work/wrong.json"
exits 2 "a spec with a wrong number" "$work/train" "$work/wrong.json" "$work/text" 1 "$work/none"
if grep -qE 'wrong.json:[0-9]+:[0-9]+$' "$work/err" && grep -q '^  expected ' "$work/err"; then
  pass "its place and its parts"
else
  fail "its place and its parts" "$(cat "$work/err")"
fi

succeeds "an artifact for a GPU too" "$sluice" compile "$root/models/tiny/vanilla.json" --target cpu-avx2,sm_80 --precision bf16 -o "$work/both.sla"
succeeds "wrong and unusual uses compile" clang++-22 -std=c++20 -Wall -Wextra -Werror "$root/test/e2e/support/interface_checks.cpp" -I"$root/include" \
  -L"$root/build/lib" -lsluice -pthread -Wl,-rpath,"$root/build/lib" -o "$work/checks"
status=0
timeout 120 "$work/checks" "$work/both.sla" "$work" > "$work/out" 2>&1 || status=$?
if [[ $status -eq 0 ]]; then
  pass "they have errors and no other effect"
else
  fail "they have errors and no other effect" "exit status $status" "$(cat "$work/out")"
fi

finish

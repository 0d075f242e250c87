#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Checks random specs by the causality check, its certificate, an enumeration of paths and the replay, and trains a share
# of them for a step (test/fuzz). Prints its findings and the sum of all counts. Exit status 1 if any two checkers
# disagree, compiler or runtime fail, or the program dies.
# Usage: scripts/fuzz.sh [--count 10000] [--seed S] [--chunk 500] [further flags of sluice-fuzz]
set -euo pipefail
. "$(dirname "$0")/common.sh"

count=10000
seed=1
chunk=500
flags=()
while (($#)); do
  case $1 in
    --count | --seed | --chunk)
      [[ ${2:-} =~ ^[0-9]+$ ]] || die "$1: expected an integer, found '${2:-}'"
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    *)
      flags+=("$1")
      shift
      ;;
  esac
done
fuzz=$build/bin/sluice-fuzz
[[ -x $fuzz ]] || die "expected $fuzz, found none; run scripts/build.sh"

counts=$(mktemp)
trap 'rm -f "$counts"' EXIT
failed=0
# In chunks, so that a crash costs one of them and names its seeds.
for ((first = seed; first < seed + count; first += chunk)); do
  size=$((seed + count - first < chunk ? seed + count - first : chunk))
  status=0
  output=$("$fuzz" --seed "$first" --count "$size" --programs "$build/bin" "${flags[@]}" 2>&1) || status=$?
  grep -E '^[a-z ]+: [0-9]+$' <<< "$output" >> "$counts" || true
  grep -vE '^[a-z ]+: [0-9]+$' <<< "$output" || true
  if ((status != 0)); then
    failed=1
    ((status == 1)) || echo "seeds $first to $((first + size - 1)): ended with status $status"
  fi
done
awk -F': ' '{ sum[$1] += $2 } END { for (name in sum) print name ": " sum[name] }' "$counts" | sort
exit "$failed"

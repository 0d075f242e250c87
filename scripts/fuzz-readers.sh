#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs the fuzzers of readers (test/fuzz-readers): seeds and what earlier runs found first, then mutations of them. Prints a
# line a reader: executions, edges of the program that were reached, seconds. Exit status 1 where a reader has a finding, 2 where
# one cannot run. Findings are files in DIR/findings, and "reader-*.log" says what each is.
# Usage: scripts/fuzz-readers.sh [--seconds 10] [--runs N] [--jobs 2] [--corpus build/fuzz-readers] [READER...]
#   --seconds, --runs   of each reader; whichever comes first ends it
#   --jobs              readers that run at once
#   --corpus            folder of inputs that reach something new; runs add to it and start from it
set -euo pipefail
. "$(dirname "$0")/common.sh"

seconds=10
runs=-1
jobs=2
corpus=$build/fuzz-readers
readers=()
while (($#)); do
  case $1 in
    --seconds | --runs | --jobs)
      [[ ${2:-} =~ ^[0-9]+$ ]] || die "$1: expected a whole number, found '${2:-}'"
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    --corpus)
      corpus=${2:?}
      shift 2
      ;;
    -*) die "unknown flag '$1'; usage: scripts/fuzz-readers.sh [--seconds S] [--runs N] [--jobs J] [--corpus DIR] [READER...]" ;;
    *)
      readers+=("$1")
      shift
      ;;
  esac
done
program=$build/bin/sluice-fuzz-readers
[[ -x $program ]] || die "expected $program, found none; install libclang-rt-22-dev (scripts/setup.sh), then run scripts/build.sh"
mapfile -t known < <("$program" --readers)
for reader in "${readers[@]}"; do
  [[ " ${known[*]} " == *" $reader "* ]] || die "expected a reader (${known[*]}), found '$reader'"
done
((${#readers[@]})) || readers=("${known[@]}")

# run_reader READER: a line on the standard output.
run_reader() {
  local reader=$1 folder=$corpus/$1 log=$corpus/reader-$1.log status=0 summary
  local seeds=("$root/test/fuzz-readers/seeds/$reader")
  case $reader in
    spec) seeds+=("$root/models/tiny" "$root/test/causality/leaky/twins") ;;
    plan) seeds+=("$root/test/unit/Runtime/Inputs") ;;
  esac
  local existing=()
  for seed in "${seeds[@]}"; do
    [[ -d $seed ]] && existing+=("$seed")
  done
  mkdir -p "$folder" "$corpus/findings"
  "$program" "--reader=$reader" -max_total_time="$seconds" -runs="$runs" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 \
    -max_len=16384 -print_final_stats=1 -artifact_prefix="$corpus/findings/$reader-" \
    "$folder" "${existing[@]}" > "$log" 2>&1 || status=$?
  summary=$(awk '/^#[0-9]+.*cov: / { for (i = 1; i < NF; ++i) if ($i == "cov:") cov = $(i + 1) }
    /^stat::number_of_executed_units:/ { runs = $2 }
    /^Done .* in .* second/ { for (i = 1; i < NF; ++i) if ($i == "in") seconds = $(i + 1) }
    END { printf "%d executions, %d edges, %d s", runs, cov, seconds }' "$log")
  if ((status == 0)); then
    echo "$reader: $summary"
  else
    echo "$reader: FINDING (status $status), see $log"
    grep -m 3 -E 'ERROR|runtime error|SUMMARY|terminate called|what\(\)' "$log" | sed 's/^/  /' || true
    return 1
  fi
}
export -f run_reader
export program corpus seconds runs root
# shellcheck disable=SC2016 # $0 is the inner shell's
printf '%s\0' "${readers[@]}" | xargs -0 -n 1 -P "$jobs" bash -c 'run_reader "$0"' || exit 1

#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs the fuzzers of readers (test/fuzz-readers): seeds and what earlier runs found first, then mutations of them. Prints a
# line a reader: executions, edges of the program that were reached, seconds. Exit status 1 where a reader has a finding, 2 where
# one cannot run. Findings are files in DIR/findings, and "reader-*.log" describes each.
# Usage: scripts/fuzz-readers.sh [--seconds 10] [--runs N] [--jobs 2] [--timeout 10] [--corpus build/fuzz-readers]
#                                [--program build/bin/sluice-fuzz-readers] [--ledger FILE] [READER...]
#   --seconds, --runs   of each reader; whichever comes first ends it
#   --jobs              readers that run at once
#   --timeout           seconds that an input may take; on a busy machine an innocent one may take more than 10
#   --corpus            folder of inputs that reach something new; runs add to it and start from it
#   --program           another build, such as one with -DSLUICE_FUZZER_OPTIMIZATION=-O2
#   --ledger            file with a line a reader: its executions and processor seconds over all runs, and the edges of the last one.
#                       A reader with 10^7 executions or two processor hours is left out. Until all have them:
#                       while [[ $(scripts/fuzz-readers.sh --seconds 300 --ledger FILE) ]]; do :; done
set -euo pipefail
. "$(dirname "$0")/common.sh"

seconds=10
runs=-1
jobs=2
timeout=10
ledger=
program=$build/bin/sluice-fuzz-readers
corpus=$build/fuzz-readers
readers=()
while (($#)); do
  case $1 in
    --seconds | --runs | --jobs | --timeout)
      [[ ${2:-} =~ ^[0-9]+$ ]] || die "$1: expected an integer, found '${2:-}'"
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    --corpus | --program | --ledger)
      printf -v "${1#--}" %s "${2:?}"
      shift 2
      ;;
    -*) die "unknown flag '$1'; usage: scripts/fuzz-readers.sh [--seconds S] [--runs N] [--jobs J] [--corpus DIR] [--ledger FILE] [READER...]" ;;
    *)
      readers+=("$1")
      shift
      ;;
  esac
done
[[ -x $program ]] || die "expected $program, found none; install libclang-rt-22-dev (scripts/setup.sh), then run scripts/build.sh"
mapfile -t known < <("$program" --readers)
for reader in "${readers[@]}"; do
  [[ " ${known[*]} " == *" $reader "* ]] || die "expected a reader (${known[*]}), found '$reader'"
done
((${#readers[@]})) || readers=("${known[@]}")

if [[ $ledger ]]; then
  touch "$ledger"
  mapfile -t readers < <(awk 'FILENAME == ARGV[1] { if ($2 >= 1e7 || $3 >= 7200) done[$1] = 1; next } !($0 in done)' "$ledger" <(printf '%s\n' "${readers[@]}"))
  [[ ${readers[*]} ]] || exit 0
fi

# Sanitizers take most of the time. AddressSanitizer stores no stacks of allocations (a finding is rerun with them), no fake frames,
# which each exception collects, and 1 MB of freed memory, which fits in the caches. LLVM's libraries are not instrumented: their
# allocators return memory that instrumented code has poisoned.
export ASAN_OPTIONS=detect_stack_use_after_return=0:malloc_context_size=0:quarantine_size_mb=1:allow_user_poisoning=0

# add_to_ledger READER EXECUTIONS SECONDS EDGES
add_to_ledger() {
  {
    flock 9
    awk -v reader="$1" -v runs="$2" -v seconds="$3" -v edges="$4" '
      $1 == reader { runs += $2; seconds += $3; if ($4 > edges) edges = $4; next } { print }
      END { printf "%s %d %.1f %d\n", reader, runs, seconds, edges }' "$ledger" | sort > "$ledger.new"
    mv "$ledger.new" "$ledger"
  } 9> "$ledger.lock"
}

# run_reader READER: prints one line on the standard output.
run_reader() {
  local reader=$1 folder=$corpus/$1 log=$corpus/reader-$1.log status=0 summary
  local seeds=("$root/test/fuzz-readers/seeds/$reader")
  case $reader in
    spec) seeds+=("$root/models/tiny" "$root/test/causality/leaky") ;;
    plan) seeds+=("$root/test/unit/Runtime/Inputs") ;;
  esac
  local existing=()
  for seed in "${seeds[@]}"; do
    [[ -d $seed ]] && existing+=("$seed")
  done
  mkdir -p "$folder" "$corpus/findings"
  # Without the symbols of new functions and without entropic weights: each takes as long as the reader itself. No other process
  # adds to the folder, so it is read once (5% of the time). The largest seed has 4,216 bytes.
  local TIMEFORMAT='%U %S'
  { time "$program" "--reader=$reader" -max_total_time="$seconds" -runs="$runs" -timeout="$timeout" -rss_limit_mb=2048 \
    -malloc_limit_mb=1024 -max_len=4500 -print_final_stats=1 -print_funcs=0 -entropic=0 -reload=0 -artifact_prefix="$corpus/findings/$reader-" \
    "$folder" "${existing[@]}" > "$log" 2>&1; } 2> "$log.time" || status=$?
  summary=$(awk '/^#[0-9]+.*cov: / { for (i = 1; i < NF; ++i) if ($i == "cov:") cov = $(i + 1) }
    /^stat::number_of_executed_units:/ { runs = $2 }
    /^Done .* in .* second/ { for (i = 1; i < NF; ++i) if ($i == "in") seconds = $(i + 1) }
    END { printf "%d executions, %d edges, %d s", runs, cov, seconds }' "$log")
  if [[ $ledger ]]; then
    local executions edges
    read -r executions _ edges _ <<< "$summary"
    add_to_ledger "$reader" "$executions" "$(awk '{ print $1 + $2 }' "$log.time")" "$edges"
  fi
  if ((status == 0)); then
    echo "$reader: $summary"
  else
    echo "$reader: FINDING (status $status), see $log"
    grep -m 3 -E 'ERROR|runtime error|SUMMARY|terminate called|what\(\)' "$log" | sed 's/^/  /' || true
    return 1
  fi
}
export -f run_reader add_to_ledger
export program corpus seconds runs timeout ledger root
# shellcheck disable=SC2016 # $0 is the inner shell's
printf '%s\0' "${readers[@]}" | xargs -0 -n 1 -P "$jobs" bash -c 'run_reader "$0"' || exit 1

#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Sets up, builds and runs every test: unit, lit, end-to-end. Closes with a line "N passed, N failed"; exit status 0
# only if none failed and each kind ran.
# Usage: scripts/test.sh [--quick]     --quick leaves out what takes longer than a minute
# Such tests carry "Slow" in a unit test's name, "REQUIRES: slow" in a lit test, ".slow.sh" in an end-to-end script.
set -euo pipefail
. "$(dirname "$0")/common.sh"

quick=
for argument; do
  case $argument in
    --quick) quick=1 ;;
    *) die "unknown argument '$argument'; usage: scripts/test.sh [--quick]" ;;
  esac
done

"$root/scripts/setup.sh"
"$root/scripts/build.sh"

cd "$root"
passed=0
failed=0
results=$build/test-results
rm -rf "$results"
mkdir -p "$results"

# count KIND PASSED FAILED: a kind of which nothing ran is a failure, so that tests cannot vanish unseen.
count() {
  local good=$2 bad=$3
  if ((good + bad == 0)); then
    say "no $1 test ran"
    bad=1
  fi
  say "$1: $good passed, $bad failed"
  passed=$((passed + good))
  failed=$((failed + bad))
}

# Prints "PASSED FAILED" of a GoogleTest result file; a program that died leaves none and counts as one failure.
unit_counts() {
  python3 - "$1" << 'PYTHON'
import json, sys
try:
    with open(sys.argv[1]) as file:
        result = json.load(file)
    cases = [case for suite in result["testsuites"] for case in suite["testsuite"]]
    ran = [case for case in cases if case["result"] == "COMPLETED"]
    bad = sum("failures" in case for case in ran)
    print(len(ran) - bad, bad)
except (OSError, ValueError):
    print(0, 1)
PYTHON
}

# run_program PROGRAM: its results and its exit status, as files.
run_program() {
  local name status=0
  name=$(basename "$1")
  "$1" --gtest_brief=1 --gtest_output="json:$results/$name.json" ${filter:+"$filter"} >&2 || status=$?
  echo "$status" > "$results/$name.status"
}

# Programs run side by side, one a processor.
run_unit() {
  local program name good bad counts total_good=0 total_bad=0 programs=()
  export filter=${quick:+--gtest_filter=-*Slow*} results
  export -f run_program
  for program in "$build"/tests/*; do
    [[ -f $program && -x $program ]] && programs+=("$program")
  done
  # shellcheck disable=SC2016 # $0 is the inner shell's
  printf '%s\0' "${programs[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'run_program "$0"'
  for program in "${programs[@]}"; do
    name=$(basename "$program")
    counts=$(unit_counts "$results/$name.json")
    read -r good bad <<< "$counts"
    # A failure outside every test (a crash at exit, a sanitizer) must not pass either.
    if ((bad == 0)) && [[ $(cat "$results/$name.status") != 0 ]]; then
      say "$name ended with status $(cat "$results/$name.status")"
      bad=1
    fi
    total_good=$((total_good + good))
    total_bad=$((total_bad + bad))
  done
  count unit "$total_good" "$total_bad"
}

run_lit() {
  local file=$results/lit.json counts good bad
  "$llvm_bin/lit" -q -j "$(nproc)" --output "$file" ${quick:+-Dquick=1} "$build/test" >&2 || true
  counts=$(python3 - "$file" << 'PYTHON'
import collections, json, sys
try:
    with open(sys.argv[1]) as file:
        codes = collections.Counter(test["code"] for test in json.load(file)["tests"])
except (OSError, ValueError):
    codes = {"UNRESOLVED": 1}
good = {"PASS", "FLAKYPASS", "XFAIL"}
print(sum(n for code, n in codes.items() if code in good),
      sum(n for code, n in codes.items() if code not in good | {"UNSUPPORTED", "SKIPPED", "EXCLUDED"}))
PYTHON
  )
  read -r good bad <<< "$counts"
  count lit "$good" "$bad"
}

# run_script SCRIPT: what it prints and its exit status, as files.
run_script() {
  local name status=0
  name=$(basename "$1")
  bash "$1" > "$results/$name.txt" || status=$?
  echo "$status" > "$results/$name.status"
}

# An end-to-end script prints "ok NAME" and "FAIL NAME" lines; anything else it prints is for the reader. Scripts run side
# by side, one a processor, the slow ones first.
run_end_to_end() {
  local script name status good bad total_good=0 total_bad=0 scripts=()
  export results
  export -f run_script
  [[ -n $quick ]] || scripts=("$root"/test/e2e/*.slow.sh)
  for script in "$root"/test/e2e/*.sh; do
    [[ $script == *.slow.sh ]] || scripts+=("$script")
  done
  # shellcheck disable=SC2016 # $0 is the inner shell's
  printf '%s\0' "${scripts[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'run_script "$0"'
  for script in "${scripts[@]}"; do
    name=$(basename "$script")
    status=$(cat "$results/$name.status")
    good=$(grep -c '^ok ' "$results/$name.txt" || true)
    bad=$(grep -c '^FAIL ' "$results/$name.txt" || true)
    if ((bad > 0)); then
      cat "$results/$name.txt" >&2
    elif ((status != 0 || good == 0)); then
      say "$name ended with status $status after $good checks"
      bad=1
    fi
    total_good=$((total_good + good))
    total_bad=$((total_bad + bad))
  done
  count end-to-end "$total_good" "$total_bad"
}

run_unit
run_lit
run_end_to_end
echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))

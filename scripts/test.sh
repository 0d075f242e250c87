#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Sets up, builds and runs every test: unit, lit, end-to-end (scripts/run_tests.py). Closes with a line "N passed, N failed"; exit
# status 0 only if none failed and each kind ran.
# Usage: scripts/test.sh [--quick]     --quick leaves out what takes longer than a minute
# Such tests carry "Slow" in a unit test's name, "REQUIRES: slow" in a lit test, ".slow.sh" in an end-to-end script.
set -euo pipefail
. "$(dirname "$0")/common.sh"

for argument; do
  [[ $argument == --quick ]] || die "unknown argument '$argument'; usage: scripts/test.sh [--quick]"
done
"$root/scripts/setup.sh"
"$root/scripts/build.sh"
exec python3 "$root/scripts/run_tests.py" "$@"

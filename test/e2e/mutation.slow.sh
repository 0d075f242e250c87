#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# A training step that uses every GPU kernel, on the emulator, NaN wherever nothing may depend on memory: every basic block runs,
# except the blocks of test/mutation/unreached.txt, and of a small sample of injected faults at most three in twenty go unseen (of the
# larger one in test/mutation/RESULT.md fewer do); none that is caught is proved to be none.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

mutation=$root/test/mutation
PATH=$(path_without_ptxas)
succeeds "mutation: compile the subject" "$sluice" compile "$mutation/subject.json" -o "$work/subject.sla" --target sm_80
succeeds "mutation: every basic block runs, and 85% of a small sample of faults are caught" \
  "$root/build/bin/sluice-mutate" "$work/subject.sla" --every 400 --every-sync 24 --check-proofs --least 85 --unreached "$mutation/unreached.txt"
tail -n 3 "$work/out"
finish

#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Regenerates test/golden/ledger.txt: the resources of every GPU kernel of the shipped specs, none of which may spill. The tests
# (test/e2e/gpu-models.slow.sh) compile nine of these specs, so run this before a release and after a change of kernels, and read the
# diff. Needs a build; takes about five minutes.
set -euo pipefail
. "$(dirname "$0")/common.sh"
command -v ptxas > /dev/null || die "expected ptxas in the PATH, found none: the ledger would lack registers and spills"
SLUICE_WRITE_LEDGER=1 bash "$root/test/e2e/gpu-models.slow.sh"

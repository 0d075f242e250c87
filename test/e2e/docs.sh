#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The pages that are made from TableGen say what TableGen says.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"
succeeds "dialect and pass pages are current" "$root/scripts/docs.sh" --check
finish

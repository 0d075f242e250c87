#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The pages that are made from TableGen say what TableGen says, and the README's picture is what is drawn.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"
succeeds "dialect and pass pages are current" "$root/scripts/docs.sh" --check
succeeds "the README's model is drawn" "$sluice" check "$root/models/demo.json" --no-advice --picture "$work/reads.svg"
succeeds "docs/images/reads.svg is current" cmp "$work/reads.svg" "$root/docs/images/reads.svg"
finish

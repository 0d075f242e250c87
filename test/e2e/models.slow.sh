#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Every spec that the project ships is proved and compiles for every target.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"
while IFS= read -r spec; do
  name=${spec#"$root/models/"}
  succeeds "$name is proved" "$sluice" check "$spec"
  succeeds "$name compiles" "$sluice" compile "$spec" -o "$work/model.sla"
done < <(find "$root/models" -name '*.json' | sort)
finish

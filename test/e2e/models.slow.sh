#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Every shipped spec is proved and certified. Many of the papers' rows differ only in sizes, so one of each kind gets kernels and a plan, as
# does each of the successors. Machine code is compiled of one larger spec and of the tiny ones that tiny-models.sh leaves out; successors.sh
# compiles the successors at a small size.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"
while IFS= read -r spec; do
  name=${spec#"$root/models/"}
  succeeds "$name is proved" "$sluice" check "$spec" --no-advice --certificate "$work/certificate"
  succeeds "and certified" "$root/build/bin/sluice-certify" "$spec" "$work/certificate"
  rm -f "$work/certificate"
  is_representative "$spec" || continue
  case $name in
    small/hourglass.json) ;;
    small/*) continue ;;    # tiny ones have the same stages
    imported/*) continue ;; # import.sh compiles them at a small size
    tiny/*) grep -qE '"inputs"|"relative"' "$spec" || continue ;; # tiny-models.sh compiles the others
    papers/* | successors/* | demo.json)
      succeeds "$name has a plan" "$sluice" compile "$spec" --emit plan
      continue
      ;;
  esac
  succeeds "$name compiles" "$sluice" compile "$spec" -o "$work/model.sla"
done < <(find "$root/models" -name '*.json' | sort)
finish

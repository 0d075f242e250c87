#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The pages built from TableGen are current, the README's picture is current, and the pages' commands run and print the shown output.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"
succeeds "dialect and pass pages are current" "$root/scripts/docs.sh" --check
succeeds "the README's model is drawn" "$sluice" check "$root/models/tiny/hourglass.json" --no-advice --picture "$work/reads.svg"
succeeds "docs/images/reads.svg is current" cmp "$work/reads.svg" "$root/docs/images/reads.svg"
for page in tutorial translation; do
  mkdir "$work/$page"
  python3 "$root/test/e2e/support/run_page.py" "$root/docs/$page.md" "$root" "$work/$page" 40 || failures=$((failures + 1))
done
# Figures too, which the other pages do not compare.
read -ra command < <(sed -n 's/^\$ sluice plan-scale/plan-scale/p' "$root/docs/scaling.md")
awk '/^```/ { inside = 0 } inside; /^\$ sluice plan-scale/ { inside = 1 }' "$root/docs/scaling.md" > "$work/expected"
succeeds "the model of scaling.md compiles" "$sluice" compile "$root/models/tiny/hourglass.json" -o "$work/tiny.sla"
cd "$work"
succeeds "the command of scaling.md runs" "$sluice" "${command[@]}"
"$sluice" "${command[@]}" > found
succeeds "its output is the page's" diff expected found
finish

#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Every spec that the project ships is proved, and compiles for every target; of the papers' rows, many of which differ in
# sizes alone, one a kind compiles.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"
while IFS= read -r spec; do
  name=${spec#"$root/models/"}
  succeeds "$name is proved" "$sluice" check "$spec" --no-advice
  case ${name#papers/} in
    hourglass-10@1.json | hourglass-10@1-xl.json | hourglass-2@1-1@2-4@4-1@2-2@1-repeat.json | hourglass-4@1-8@4-4@1.json | \
      hourglass-2@1-24@4-2@1-attention_linear-attention_linear.json | hourglass-cifar-1@1-8@3-1@1-average-attention_linear.json | \
      multiscale-vanilla-12-window-64.json | multiscale-top-down-2-4-8-12.json | multiscale-top-down-7-7-8-8-convolution.json | \
      multiscale-coarse-16.json | multiscale-bottom-up-8-9-9.json | multiscale-retina-12-0-8-8-256-256-512.json) ;;
    hourglass-* | multiscale-*) continue ;;
    small/hourglass.json | small/vanilla.json) ;;
    small/*) continue ;; # tiny ones have the same stages
  esac
  succeeds "$name compiles" "$sluice" compile "$spec" -o "$work/model.sla"
done < <(find "$root/models" -name '*.json' | sort)
finish

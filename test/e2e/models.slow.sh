#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Every spec that the project ships is proved and compiles for every target; of the multi-scale transformers' rows, which differ in sizes
# alone, one a kind compiles.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"
while IFS= read -r spec; do
  name=${spec#"$root/models/"}
  succeeds "$name is proved" "$sluice" check "$spec" --no-advice
  case $name in
    */multiscale-vanilla-12-window-64.json | */multiscale-top-down-2-4-8-12.json | */multiscale-top-down-7-7-8-8-convolution.json | \
      */multiscale-coarse-16.json) ;;
    */multiscale-*) continue ;;
  esac
  succeeds "$name compiles" "$sluice" compile "$spec" -o "$work/model.sla"
done < <(find "$root/models" -name '*.json' | sort)
finish

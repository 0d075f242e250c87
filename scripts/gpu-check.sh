#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Checks and times the GPU code on a machine with a GPU, which needs NVIDIA's driver and nothing else.
# Usage, here:    scripts/gpu-check.sh --pack DIR    makes the bundle DIR and DIR.tar.gz (under 60 MB)
#        there:   DIR/gpu-check.sh [RESULTS]         under eight minutes; a short table last, RESULTS/gpu-check.json kept
# There it runs every recorded kernel launch from the operands recorded here and compares with float64, stores the GPU's results
# (goldens-*.rec), and times kernels and whole training steps, next to PyTorch (cuBLAS) where that is installed.
# Exit status: 0 all right; 1 a kernel was wrong; 2 bad input, or no driver.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() { printf 'error: %s\n' "$*" >&2; exit 2; }

# Prints elements of a list of bundle.json, one per line: its keys in the given order, "-" if absent.
list() {
  python3 - "$@" << 'PYTHON'
import json, sys
with open(sys.argv[1]) as file:
    for element in json.load(file)[sys.argv[2]]:
        print(*(element.get(key, "-") for key in sys.argv[3:]))
PYTHON
}

pack() {
  . "$here/common.sh"
  local bundle=${1%/} manifest=$root/benchmarks/gpu/bundle.json sluice=$build/bin/sluice artifact recording spec length rows bytes
  [[ ! -e $bundle ]] || fail "$bundle: expected a new folder, found one that is there; remove it or name another"
  "$root/scripts/build.sh" sluice sluice-gpu-check sluice_emulator_plugin
  mkdir -p "$bundle"
  cp "$manifest" "$here/gpu-check.sh" "$here/gpu_check_torch.py" "$bundle"
  strip -o "$bundle/sluice-gpu-check" "$build/bin/sluice-gpu-check"
  while read -r artifact recording spec length rows; do
    say "recording $spec"
    "$sluice" compile "$root/$spec" -o "$bundle/$artifact" --target sm_80,sm_90a >&2
    [[ $length == - ]] && length=0
    [[ $rows == - ]] && rows=0
    "$build/bin/sluice-gpu-check" record "$bundle/$artifact" -o "$bundle/$recording" --length "$length" --rows "$rows" >&2
  done < <(list "$manifest" checks artifact recording spec length rows)
  while read -r artifact spec; do
    say "compiling $spec"
    cp "$root/$spec" "$bundle"
    # One of them is bidirectional: it is timed, not trained.
    "$sluice" compile "$root/$spec" -o "$bundle/$artifact" --target sm_80,sm_90a --allow-leak >&2
  done < <(list "$manifest" timed artifact spec)
  tar -czf "$bundle.tar.gz" -C "$(dirname "$bundle")" "$(basename "$bundle")"
  bytes=$(stat -c %s "$bundle.tar.gz")
  ((bytes < 60000000)) || fail "$bundle.tar.gz: expected less than 60 MB, found $bytes bytes; record smaller models"
  echo "$bundle.tar.gz: $bytes bytes; unpack it on the machine with the GPU and run $(basename "$bundle")/gpu-check.sh"
}

check() {
  local results=$1 status=0 torch=()
  mkdir -p "$results"
  rm -f "$results"/{sluice,pytorch,gpu-check}.json
  [[ -x $here/sluice-gpu-check ]] || fail "$here/sluice-gpu-check: expected the program of the bundle, found none; unpack it again"
  timeout 250 "$here/sluice-gpu-check" run "$here" -o "$results" || status=$?
  ((status != 124)) || echo "error: sluice-gpu-check: expected to end within 250 seconds, found it running; is the GPU used by others?" >&2
  [[ -f $results/sluice.json ]] || exit "$((status == 124 ? 2 : status))"
  ((status == 0)) || status=1
  if command -v python3 > /dev/null; then
    timeout 210 python3 "$here/gpu_check_torch.py" "$here" "$results/pytorch.json" || echo "PyTorch ended early" >&2
    [[ -f $results/pytorch.json ]] && torch=(--torch "$results/pytorch.json")
  fi
  "$here/sluice-gpu-check" table "$here" -o "$results" ${torch[@]+"${torch[@]}"}
  exit "$status"
}

case ${1:-} in
  --pack)
    [[ $# -eq 2 ]] || fail "--pack: expected a folder to make, found $(($# - 1)) words; write scripts/gpu-check.sh --pack DIR"
    pack "$2"
    ;;
  -*) fail "unknown argument '$1'; usage: gpu-check.sh --pack DIR, or in a bundle gpu-check.sh [RESULTS]" ;;
  *)
    [[ -f $here/bundle.json ]] || fail "$here/bundle.json: expected a bundle, found none; make one with scripts/gpu-check.sh --pack DIR"
    check "${1:-gpu-check-results}"
    ;;
esac

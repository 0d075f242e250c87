#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Checks and times the GPU code on a machine with a GPU, which needs NVIDIA's driver and nothing else (NCCL for several processes).
# Usage, here:    scripts/gpu-check.sh --pack DIR [LIST]   makes the bundle DIR and DIR.tar.xz (under 60 MB) of the models that LIST names,
#                                                    by default benchmarks/gpu/bundle.json
#        there:   DIR/gpu-check.sh [RESULTS]         under eight minutes; a short table last, RESULTS/gpu-check.json kept
#                 DIR/gpu-check.sh --exchange [RESULTS]   only the exchange of memory by NCCL, half a minute
# There it runs every recorded kernel launch from the operands recorded here and compares with float64, stores the GPU's results
# (goldens-*.rec), and times kernels and whole training steps, next to PyTorch (cuBLAS) where that is installed. With NCCL it sends memory
# of a GPU to itself; with two GPUs also between two processes, and where mpirun and sluice are installed it trains with two.
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
  local bundle=${1%/} manifest=${2:-$root/benchmarks/gpu/bundle.json} sluice=$build/bin/sluice artifact recording spec length rows bytes
  [[ ! -e $bundle ]] || fail "$bundle: expected a new folder, found one that is there; remove it or name another"
  { list "$manifest" checks artifact recording spec length rows && list "$manifest" timed artifact spec; } > /dev/null 2>&1 \
    || fail "$manifest: expected a list of models, found none; write one like benchmarks/gpu/bundle.json"
  "$root/scripts/build.sh" sluice sluice-gpu-check sluice_emulator_plugin
  mkdir -p "$bundle"
  cp "$manifest" "$bundle/bundle.json"
  cp "$here/gpu-check.sh" "$here/gpu_check_torch.py" "$bundle"
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
  XZ_OPT="-1 -T0" tar -cJf "$bundle.tar.xz" -C "$(dirname "$bundle")" "$(basename "$bundle")"
  bytes=$(stat -c %s "$bundle.tar.xz")
  ((bytes < 60000000)) || fail "$bundle.tar.xz: expected less than 60 MB, found $bytes bytes; record smaller models"
  echo "$bundle.tar.xz: $bytes bytes; unpack it on the machine with the GPU and run $(basename "$bundle")/gpu-check.sh"
}

# Prints the path of PyTorch's NCCL; nothing if the system has one, or neither has.
find_nccl() {
  ldconfig -p 2> /dev/null | grep -q 'libnccl\.so\.2' || python3 - 2> /dev/null << 'PYTHON' || true
import glob, os, nvidia.nccl
print(*glob.glob(os.path.join(list(nvidia.nccl.__path__)[0], "lib", "libnccl.so.2")))
PYTHON
}

# exchange RESULTS: the exchange between processes, first of one with itself, then of two with a GPU each. It is also trained with two
# where mpirun and sluice are installed. A line reports a check that is skipped.
exchange() {
  local results=$1 artifact gpus count rank pids status=0 shared
  artifact=$here/$(list "$here/bundle.json" checks artifact | head -n 1)
  [[ -n ${SLUICE_NCCL:-} ]] || SLUICE_NCCL=$(find_nccl)
  export SLUICE_NCCL
  if ! python3 -c 'import ctypes, os; ctypes.CDLL(os.environ["SLUICE_NCCL"] or "libnccl.so.2")' 2> /dev/null; then
    echo "several processes: not checked: expected libnccl.so.2, found none; install NCCL or set SLUICE_NCCL"
    return 0
  fi
  gpus=$(nvidia-smi -L 2> /dev/null | grep -c '^GPU' || true)
  for count in 1 2; do
    if ((gpus < count)); then
      echo "$count processes: not checked: expected $count GPUs, found $gpus"
      return "$status"
    fi
    shared=$(mktemp -d)
    pids=()
    for ((rank = 0; rank < count; ++rank)); do
      timeout 100 "$here/sluice-gpu-check" exchange "$artifact" --rank "$rank" --ranks "$count" -o "$shared" \
        > "$results/exchange-$count-$rank.json" &
      pids+=($!)
    done
    for rank in "${!pids[@]}"; do
      wait "${pids[rank]}" || { status=1; echo "error: $count processes: rank $rank failed to exchange memory of the GPUs" >&2; }
    done
    cat "$results"/exchange-"$count"-*.json
    rm -rf "$shared"
  done
  if ! command -v mpirun > /dev/null || ! command -v sluice > /dev/null; then
    echo "training by 2 processes: not checked: expected mpirun and sluice in PATH, found one or none of them"
    return "$status"
  fi
  train_together "$results" "$artifact" || status=1
  return "$status"
}

# train_together RESULTS ARTIFACT: two processes train with the bits of one.
train_together() {
  local results=$1 arguments=(train "$2" --data "$here/bundle.json" --device cuda --steps 3 --set training.accumulate=2)
  rm -rf "$results"/train-{1,2}
  timeout 200 sluice "${arguments[@]}" --out "$results/train-1" > "$results/train.log" 2>&1 &&
    timeout 200 mpirun --oversubscribe -n 2 sluice "${arguments[@]}" --out "$results/train-2" >> "$results/train.log" 2>&1 &&
    cmp "$results"/train-{1,2}/checkpoints/3/weights.safetensors &&
    echo "training by 2 processes: the bits of one" && return
  echo "error: training by 2 processes: expected the bits of one; see $results/train.log" >&2
  return 1
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
  exchange "$results" || status=1
  exit "$status"
}

case ${1:-} in
  --pack)
    [[ $# -eq 2 || $# -eq 3 ]] || fail "--pack: expected a folder to make, found $(($# - 1)) words; write scripts/gpu-check.sh --pack DIR"
    pack "${@:2}"
    ;;
  --exchange)
    [[ -f $here/bundle.json ]] || fail "$here/bundle.json: expected a bundle, found none; make one with scripts/gpu-check.sh --pack DIR"
    mkdir -p "${2:-gpu-check-results}"
    exchange "${2:-gpu-check-results}"
    ;;
  -*) fail "unknown argument '$1'; usage: gpu-check.sh --pack DIR, or in a bundle gpu-check.sh [--exchange] [RESULTS]" ;;
  *)
    [[ -f $here/bundle.json ]] || fail "$here/bundle.json: expected a bundle, found none; make one with scripts/gpu-check.sh --pack DIR"
    check "${1:-gpu-check-results}"
    ;;
esac

#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Main loops of an artifact's GPU kernels as assembled by ptxas: instructions, and how many of them are the tensor core's.
# A main loop is an innermost loop with such an instruction; skippable parts (masks) count with it.
# Takes NVIDIA's disassembler from the PATH, else from PyPI (nvidia-cuda-nvdisasm, kept in build/).
# Usage: scripts/sass.sh ARTIFACT [--json]       exit status 3: no disassembler to be had
set -euo pipefail
. "$(dirname "$0")/common.sh"

[[ $# -ge 1 && -f $1 && (${2:---json} == --json) && $# -le 2 ]] || die "usage: scripts/sass.sh ARTIFACT [--json]"
disassembler=$(command -v nvdisasm || true)
kept=$build/nvdisasm
if [[ -z $disassembler ]]; then
  mkdir -p "$kept"
  disassembler=$(find "$kept" -name nvdisasm -type f -print -quit)
fi
if [[ -z $disassembler ]]; then
  if ! python3 -m pip download -q --no-deps --only-binary=:all: -d "$kept" nvidia-cuda-nvdisasm >&2; then
    say "no disassembler: neither nvdisasm in the PATH nor nvidia-cuda-nvdisasm from PyPI"
    exit 3
  fi
  python3 -m zipfile -e "$kept"/nvidia_cuda_nvdisasm-*.whl "$kept"
  disassembler=$(find "$kept" -name nvdisasm -type f -print -quit)
  chmod +x "$disassembler"
fi
parts=$(mktemp -d)
trap 'rm -rf "$parts"' EXIT
"$build/bin/sluice" inspect "$1" --extract "$parts" > /dev/null
python3 - "$disassembler" "$parts" "${2:-}" << 'PYTHON'
import collections, concurrent.futures, glob, json, os, re, subprocess, sys
disassembler, parts, form = sys.argv[1:]
tensor = re.compile(r"\b(HMMA|HGMMA)\b")  # of a warp, and of four warps, whose product is 128 times as large

def functions(cubin):
    """Name, instructions in order, and the place of each label. Without the analysis of data flow, which finds targets of indirect
    branches: main loops have none."""
    text = subprocess.run([disassembler, "-c", "-ndf", cubin], capture_output=True, text=True, check=True).stdout
    for section in re.split(r"\n\s*\.section\s+\.text\.", text)[1:]:
        labels, instructions = {}, []
        for line in section.splitlines():
            line = line.strip()
            if label := re.match(r"(\.L_\w+):", line):
                labels[label[1]] = len(instructions)
            elif instruction := re.match(r"/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", line):
                instructions.append(instruction[1])
        yield section.split(",")[0], instructions, labels

def main_loops(instructions, labels):
    tensors = [i for i, text in enumerate(instructions) if tensor.search(text)]
    loops = set()
    for i, text in enumerate(instructions):
        target = re.search(r"\bBRA\b.*`\((\S+?)\)", text)
        if target and labels.get(target[1], i + 1) <= i and any(labels[target[1]] <= t <= i for t in tensors):
            loops.add((labels[target[1]], i))
    def inside(a, b):
        return a != b and b[0] <= a[0] and a[1] <= b[1]
    for loop in sorted(l for l in loops if not any(inside(other, l) for other in loops)):
        inside_loop = [instructions[t] for t in tensors if loop[0] <= t <= loop[1]]
        yield loop[1] - loop[0] + 1, len(inside_loop), sum("HGMMA" in text for text in inside_loop)

def uses_tensor_cores(cubin):
    """Instructions of tensor cores come from mma.sync and wgmma in the PTX alone."""
    with open(cubin[:-len("cubin")] + "ptx") as ptx:
        return "mma" in ptx.read()

def read(cubin):
    target, name = os.path.basename(os.path.dirname(cubin)), os.path.basename(cubin)[:-len(".cubin")]
    rows = []
    for function, instructions, labels in functions(cubin):
        stage = function.partition("_")[2]
        for count, tensors, wide in main_loops(instructions, labels):
            rows.append({"kernel": name, "stage": stage, "target": target, "instructions": count,
                         "tensor_instructions": tensors, "tensor_share": round(tensors / count, 3), "warpgroup_instructions": wide})
    return rows

cubins = sorted(glob.glob(parts + "/sm_*/*.cubin"))
if not cubins:
    sys.exit("error: expected an artifact with cubins, found none: compile with --target sm_80 where ptxas is in the PATH")
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    rows = [row for rows in pool.map(read, filter(uses_tensor_cores, cubins)) for row in rows]
if form:
    print(json.dumps(rows, indent=1))
else:
    print(f"{'kernel':54} {'stage':10} {'target':8} {'loop':>5} {'tensor':>6} share")
    for row in rows:
        print(f"{row['kernel']:54} {row['stage']:10} {row['target']:8} {row['instructions']:5} {row['tensor_instructions']:6} {row['tensor_share']:5.0%}")
PYTHON

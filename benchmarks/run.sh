#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Measures what docs/performance.md states, on this machine, and prints it as text; JSON goes to build/benchmarks/.
# Every fraction is of the FMA peak that an independent program measured in the same run. Wants an idle machine.
set -euo pipefail
. "$(dirname "$0")/../scripts/common.sh"
"$root/scripts/setup.sh"
"$root/scripts/build.sh"
out=$build/benchmarks
sluice=$build/bin/sluice
mkdir -p "$out"

for model in hourglass vanilla; do
  start=$(date +%s.%N)
  "$sluice" compile "$root/models/small/$model.json" -o "$out/$model.sla"
  printf 'compile small/%-10s %.1f s\n' "$model" "$(python3 -c "import time; print(time.time() - $start)")"
done
for threads in 1 2; do
  "$sluice" bench "$out/hourglass.sla" --threads "$threads" --kernels --json > "$out/step-$threads.json" 2> /dev/null
done
"$build/bin/sluice-bench-kernels" > "$out/matmul.json"
"$build/bin/sluice-bench-attention" > "$out/attention.json"

python3 - "$out" << 'PYTHON'
import json, sys
folder = sys.argv[1]
steps = {threads: json.load(open(f"{folder}/step-{threads}.json")) for threads in (1, 2)}
for threads, step in steps.items():
    kernels = step["kernels"]
    print(f"small/hourglass, {threads} thread(s), {step['target']}: step {step['step_ms']:.0f} ms, "
          f"{step['tokens_per_s']:.0f} tokens/s, {step['fraction_of_peak']:.1%} of {step['peak_gflops']:.0f} Gflop/s; "
          f"kernels {sum(k['ms'] for k in kernels) / step['step_ms']:.1%} of the step")
    for kind in ("matmul", "attention", "row", "stream"):
        chosen = [k for k in kernels if k["kind"] == kind]
        ms = sum(k["ms"] for k in chosen)
        flops = sum(k["gflops"] * k["ms"] for k in chosen)
        worst = min(chosen, key=lambda k: k["fraction_of_peak"])
        print(f"  {kind:10} {ms:8.1f} ms  {flops / ms / step['peak_gflops']:6.1%} of peak; least "
              f"{worst['fraction_of_peak']:.1%}, {worst['name']}")
print(f"two threads against one: {steps[1]['step_ms'] / steps[2]['step_ms']:.2f}")
PYTHON

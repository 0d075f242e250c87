#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# How long `sluice check` takes for 6, 12, 24, 48 and 96 stages, start of the program included: the proof is linear in
# depth. Six stages are shift, shorten, two layers, upsample and add. Prints the fastest of five runs of each, the time of
# `sluice --version`, which is the start alone, and the time a stage beyond 6. Wants an idle machine.
set -euo pipefail
. "$(dirname "$0")/../scripts/common.sh"
[[ -x $build/bin/sluice ]] || die "expected $build/bin/sluice, found none; run scripts/build.sh"

python3 - "$build/bin/sluice" << 'PYTHON'
import json, os, subprocess, sys, tempfile, time

sluice = sys.argv[1]
period = [{"op": "shift", "by": 3}, {"op": "shorten", "factor": 4}, {"op": "layer"}, {"op": "layer"},
          {"op": "upsample", "factor": 4}, {"op": "add"}]

def spec(stages):
    body = [{"op": "embedding", "to": "x0"}]
    for i in range(stages // len(period)):
        block = [dict(stage) for stage in period]
        block[-1] |= {"with": f"x{i}", "to": f"x{i + 1}"}
        body += block
    return {"sluice": 1, "vocabulary": 256, "context": 2048, "batch": 8, "width": 512, "defaults": {"heads": 8},
            "stages": body + [{"op": "head"}]}

def fastest(command):
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        best = min(best, time.perf_counter() - start)
    return best

with tempfile.TemporaryDirectory() as folder:
    print(f"start alone: {fastest([sluice, '--version']) * 1000:.0f} ms")
    times = {}
    for stages in (6, 12, 24, 48, 96):
        path = os.path.join(folder, f"{stages}.json")
        with open(path, "w") as file:
            json.dump(spec(stages), file)
        times[stages] = fastest([sluice, "check", path])
        rest = "" if stages == 6 else f", {(times[stages] - times[6]) / (stages - 6) * 1000:.2f} ms a stage beyond 6"
        print(f"{stages:3} stages: {times[stages] * 1000:.0f} ms{rest}")
PYTHON

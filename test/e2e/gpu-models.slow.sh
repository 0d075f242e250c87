#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Every spec that the project ships compiles for every GPU target with --precision bf16: PTX, and where there is a ptxas cubins,
# no kernel of which spills or has a stack. A training step launches no more kernels than docs/gpu.md says.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

cat > "$work/models.py" << 'PYTHON'
import collections, concurrent.futures, glob, json, os, shutil, subprocess, sys
root, work = os.environ["root"], os.environ["work"]
assembled = shutil.which("ptxas") is not None

# Eight pre-norm layers, 7 launches forward and 14 backward each, and what lies outside.
most_launches = {"small/vanilla.json": {"forward": 8 * 7 + 2, "backward": 8 * 14 + 6, "update": 3}}

def launches(artifact):
    parts = artifact + ".parts"
    subprocess.run([f"{root}/build/bin/sluice", "inspect", artifact, "--extract", parts], check=True, capture_output=True)
    plan = json.load(open(parts + "/plan.json"))
    shutil.rmtree(parts)
    count = collections.Counter()
    for node in plan["entries"]["gradient"] + plan["entries"]["update"]:
        count[node["phase"]] += len(plan["kernels"][node["launch"]]["variants"]["sm_80"]["stages"])
    return count

def compile(spec):
    name = os.path.relpath(spec, root + "/models")
    path = f"{work}/{name.replace('/', '-')}"
    made = subprocess.run([f"{root}/build/bin/sluice", "compile", spec, "-o", path + ".sla", "--target", "sm_80,sm_90a",
                           "--precision", "bf16"], capture_output=True, text=True)
    if made.returncode:
        return f"FAIL {name} compiles for sm_80 and sm_90a\n  {made.stderr[-500:]}"
    shown = subprocess.run([f"{root}/build/bin/sluice", "inspect", path + ".sla", "--json"], capture_output=True, text=True)
    count, most = launches(path + ".sla"), most_launches.get(name, {})
    os.remove(path + ".sla")
    if any(count[phase] > most[phase] for phase in most):
        return f"FAIL {name}: at most {most} launches\n  {dict(count)}"
    kernels = [k for k in json.loads(shown.stdout)["kernels"] if k["target"].startswith("sm_")]
    bad = [f"{k['name']} {k['target']}" for k in kernels if assembled and k["spills"] != 0]
    if bad or {k["target"] for k in kernels} != {"sm_80", "sm_90a"}:
        return f"FAIL {name}: no kernel spills\n  {bad[:5]}"
    return f"ok {name}: {len(kernels)} kernels for sm_80 and sm_90a" + (", none spills" if assembled else "")

with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    lines = list(pool.map(compile, sorted(glob.glob(root + "/models/*/*.json"))))
print("\n".join(lines))
sys.exit(any(line.startswith("FAIL") for line in lines))
PYTHON
python3 "$work/models.py"

#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Shipped specs compile for GPUs with --precision bf16: PTX, and where there is a ptxas cubins, no kernel of which spills or has a stack.
# The specs of `always` have each kind of kernel and stage; the others differ from them in sizes and in the tokens that a row reads.
# One compiles for both targets; the code of the others is nearly the same for both. A training step launches no more kernels than in
# docs/gpu.md. Each kernel's resources match the spec's lines in test/golden/ledger.txt. scripts/ledger.sh compiles all specs,
# checks them likewise, and writes that file anew; sass.slow.sh assembles the paper's model for both targets.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

cat > "$work/models.py" << 'PYTHON'
import concurrent.futures, difflib, glob, json, os, re, shutil, subprocess, sys
root, work = os.environ["root"], os.environ["work"]
golden = root + "/test/golden/ledger.txt"
both = ["sm_80", "sm_90a"]
assembled = shutil.which("ptxas") is not None

# Eight pre-norm layers, 7 launches forward and 14 backward each, and at most 12 outside.
most_launches = {"small/vanilla.json": {"forward": 8 * 7 + 2, "backward": 8 * 14 + 6, "update": 3}}
# hred: recurrences and segments; umst: scans of segments, words of the data; relative: attention by distance; contrast: scores of other
# rows; convolution: windows that overlap, and transposed; apart: attention and feed-forward stages, SwiGLU; distill: losses to targets.
always = {"small/vanilla.json": ["sm_90a"], "tiny/hourglass-bf16.json": both, "tiny/hred.json": ["sm_80"], "tiny/umst.json": ["sm_90a"],
          "tiny/relative-bf16.json": ["sm_80"], "tiny/contrast.json": ["sm_80"], "tiny/distill.json": ["sm_90a"], "tiny/apart.json": ["sm_80"],
          "tiny/convolution.json": ["sm_90a"]}
everything = bool(os.environ.get("SLUICE_WRITE_LEDGER"))
# Every kernel of these has a line; for the others there are sums.
in_full = {"tiny/vanilla-bf16.json", "tiny/hourglass-bf16.json", "small/vanilla.json", "small/hourglass.json",
           "papers/hourglass-2@1-8@4-2@1-repeat.json"}

def ptxas_version():
    if not assembled:
        return "none"
    return re.search(r"V[\d.]+", subprocess.run(["ptxas", "--version"], capture_output=True, text=True).stdout)[0]

def usage(kernel):
    """What ptxas said, in columns that another version's may differ from."""
    if kernel["registers"] is None:
        return "| -"
    return f"| {kernel['registers']} registers, {kernel['spills']} spilled, {kernel['occupancy']:.0%} occupied"

def lines_of(name, model, targets):
    for target in targets:
        kernels = [k for k in model["kernels"] if k["target"] == target]
        launches = model["launches"][target]
        most = max((k["registers"] or 0 for k in kernels), default=0)
        yield (f"{name} {target}: {len(kernels)} kernels, launches {launches['forward']} + {launches['backward']} + {launches['update']}, "
               f"{model['step']['bytes']:.0f} bytes a step, least {model['step']['least_bytes']} | {most} registers at most")
        for k in kernels if name in in_full else ():
            grids = " ".join(f"{s['blocks']}x{s['threads']}" for s in k["stages"])
            yield (f"  {k['name']} {k['kind']} {grids} shared {k['shared_bytes']} workspace {k['workspace_bytes']} "
                   f"flops {k['flops']} bytes {k['planned_bytes']} {usage(k)}")

def compile(numbered):
    number, spec = numbered
    name = os.path.relpath(spec, root + "/models")
    path = f"{work}/{name.replace('/', '-')}"
    targets = always.get(name, []) if not everything else both if name in in_full else [both[number % 2]]
    if not targets:
        return None, []
    made = subprocess.run([f"{root}/build/bin/sluice", "compile", spec, "-o", path + ".sla", "--target", ",".join(targets),
                           "--precision", "bf16"], capture_output=True, text=True)
    if made.returncode:
        return f"FAIL {name} compiles for {' and '.join(targets)}\n  {made.stderr[-500:]}", []
    shown = subprocess.run([f"{root}/build/bin/sluice", "inspect", path + ".sla", "--json"], capture_output=True, text=True)
    os.remove(path + ".sla")
    model = json.loads(shown.stdout)
    count, most = model["launches"][targets[0]], most_launches.get(name, {})
    ledger = list(lines_of(name, model, targets))
    if any(count[phase] > most[phase] for phase in most):
        return f"FAIL {name}: at most {most} launches\n  {count}", ledger
    kernels = [k for k in model["kernels"] if k["target"].startswith("sm_")]
    bad = [f"{k['name']} {k['target']}" for k in kernels if assembled and k["spills"] != 0]
    if bad or {k["target"] for k in kernels} != set(targets):
        return f"FAIL {name}: no kernel spills\n  {bad[:5]}", ledger
    return f"ok {name}: {len(kernels)} kernels for {' and '.join(targets)}" + (", none spills" if assembled else ""), ledger

def compare(found):
    compiled = {line.split(":")[0] for line in found[1:] if not line.startswith("  ")}
    chosen, lines = False, [] # of the specs and targets that were compiled
    with open(golden) as file:
        version, *expected = file.read().splitlines()
    for line in expected:
        if not line.startswith("  "):
            chosen = line.split(":")[0] in compiled
        if chosen:
            lines.append(line)
    expected = [version, *lines]
    if expected[0] != found[0]: # another ptxas: its output is not compared
        expected, found = ([line.split(" |")[0] for line in lines[1:]] for lines in (expected, found))
    if expected == found:
        return "ok every kernel uses what the ledger has"
    changes = [line for line in difflib.unified_diff(expected, found, "ledger", "found", n=0, lineterm="")]
    return "\n  ".join(["FAIL every kernel uses what the ledger has: look at the changes, then run scripts/ledger.sh", *changes[:20]])

# One of the papers' specs, none of their successors or of other libraries: the kernels of the others differ in sizes.
large = {root + "/models/papers", root + "/models/successors", root + "/models/imported"}
specs = [spec for spec in glob.glob(root + "/models/**/*.json", recursive=True)
         if os.path.dirname(spec) not in large or os.path.relpath(spec, root + "/models") in in_full]
# Two of the small ones: the others have the same kinds of kernels as the tiny ones.
specs = [spec for spec in specs if "/small/" not in spec or os.path.basename(spec) in ("vanilla.json", "hourglass.json")]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    results = list(pool.map(compile, enumerate(sorted(specs))))
checks = [check for check, _ in results if check]
ledger = [f"ptxas {ptxas_version()}"] + [line for _, lines in results for line in lines]
if everything:
    with open(golden, "w") as file:
        file.write("\n".join(ledger) + "\n")
if not everything and len(checks) != len(always):
    checks.append(f"FAIL {len(always)} specs compile, found {len(checks)}")
checks.append(compare(ledger))
print("\n".join(checks))
sys.exit(any(check.startswith("FAIL") for check in checks))
PYTHON
python3 "$work/models.py"

#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The machine code of a model's GPU kernels: none spills, every product of more than a token runs on tensor cores, and at least half of a
# contraction's main loop are tensor-core instructions.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

if ! command -v ptxas > /dev/null; then
  pass "machine code not checked: no ptxas in the PATH"
  finish
fi
python3 - "$root/models/papers/hourglass-2@1-8@4-2@1-repeat.json" "$work/model.json" << 'PYTHON'
import json, sys
model = json.load(open(sys.argv[1]))
model["precision"] = {"compute": "bf16"}
json.dump(model, open(sys.argv[2], "w"))
PYTHON
succeeds "compile" "$sluice" compile "$work/model.json" -o "$work/model.sla" --target sm_80,sm_90a
succeeds "ledger" "$sluice" inspect "$work/model.sla" --json
cp "$work/out" "$work/ledger.json"
holds "no kernel spills" 'len(f[0]["kernels"]) >= 200 and all(k["spills"] == 0 for k in f[0]["kernels"] if k["target"].startswith("sm_"))' \
  "$work/ledger.json"
status=0
"$root/scripts/sass.sh" "$work/model.sla" --json > "$work/sass.json" 2> "$work/err" || status=$?
if [[ $status -eq 3 ]]; then
  pass "machine code not checked: no disassembler in the PATH nor from PyPI"
  finish
fi
[[ $status -eq 0 ]] || fail "disassemble" "$(tail -n 5 "$work/err")"
succeeds "plan" "$sluice" inspect "$work/model.sla" --extract "$work/parts"
# A token's products have one row per text: memory bandwidth limits them, so they use no tensor cores.
holds "every matrix kernel outside the step has a main loop on tensor cores" \
  '(lambda of: {(k["name"], k["target"]) for k in f[1]["kernels"] if k["kind"] in ("matmul", "attention")}
     - {(f[2]["kernels"][i]["name"], target) for i in of(["step"]) - of(set(f[2]["entries"]) - {"step"}) for target in ("sm_80", "sm_90a")}
     == {(r["kernel"], r["target"]) for r in f[0]})(
     lambda entries: {n["launch"] for e in entries for n in f[2]["entries"][e] if "launch" in n})' \
  "$work/sass.json" "$work/ledger.json" "$work/parts/plan.json"
holds "at least half of a contraction's main loop are tensor-core instructions, if these are not a warpgroup's" \
  '(lambda rows: len(rows) >= 40 and all(r["tensor_share"] >= 0.5 or r["warpgroup_instructions"] >= 4 for r in rows)
     and {r["target"] for r in rows if r["warpgroup_instructions"]} == {"sm_90a"})(
     [r for r in f[0] if r["kernel"].startswith(("contract_8x2048", "contract_8x512"))])' "$work/sass.json"
finish

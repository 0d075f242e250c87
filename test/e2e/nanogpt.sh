#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# nanoGPT's architecture as a spec: a state dict becomes weights, and the logits equal PyTorch's.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

golden=$root/test/golden/nanogpt
convert=$root/scripts/nanogpt_weights.py
succeeds "convert the state dict" python3 "$convert" "$golden/state.safetensors" "$work/weights.safetensors"
succeeds "compile" "$sluice" compile "$root/models/tiny/nanogpt.json" -o "$work/a.sla" --target cpu-avx2
succeeds "logits" "$sluice" logits "$work/a.sla" --weights "$work/weights.safetensors" --data "$golden/text.txt" -o "$work/logits.npy"
succeeds "logits within 1e-5 of PyTorch's" python3 - "$golden/logits.safetensors" "$work/logits.npy" << 'PYTHON'
import array, sys
def floats(path, skip):
    data = open(path, "rb").read()
    return array.array("f", data[skip(data):])
expected = floats(sys.argv[1], lambda data: 8 + int.from_bytes(data[:8], "little"))
found = floats(sys.argv[2], lambda data: 10 + int.from_bytes(data[8:10], "little"))
assert len(expected) == len(found) == 64 * 256, len(found)
worst = max(abs(a - b) for a, b in zip(expected, found))
print(f"largest difference {worst:.2g}")
assert worst <= 1e-5 < max(map(abs, expected)), worst
PYTHON
exits 1 "replaces no file" python3 "$convert" "$golden/state.safetensors" "$work/weights.safetensors"
exits 1 "another program's names" python3 "$convert" "$root/test/golden/expected/vanilla.weights.safetensors" "$work/none"
exits 1 "writes nothing" test -e "$work/none"

finish

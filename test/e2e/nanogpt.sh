#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# nanoGPT's architecture as a spec: a state dict becomes weights, and the logits equal PyTorch's.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

golden=$root/test/golden/nanogpt
import=("$sluice" import --map "$root/models/imported/nanogpt.map" --model "$root/models/tiny/nanogpt.json")
succeeds "import the state dict" "${import[@]}" "$golden/state.safetensors" -o "$work/weights.safetensors"
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
attend=("$sluice" analyze attention "$work/a.sla" --weights "$work/weights.safetensors" --data "$golden/text.txt")
layer=(--layer stages.1.inside.0)
succeeds "the map of the first layer" "${attend[@]}" "${layer[@]}" -o "$work/mean.npy" --picture "$work/map.svg"
succeeds "the map of a head" "${attend[@]}" "${layer[@]}" --head 2 -o "$work/head.npy"
succeeds "a picture with both texts" python3 -c 'import sys, xml.dom.minidom as x
tags = [t.tagName for t in x.parse(sys.argv[1]).getElementsByTagName("*")]
assert tags.count("text") == 129 and tags.count("rect") == 1 + 64 * 65 // 2' "$work/map.svg"
succeeds "both within 1e-5 of the maps in float64" python3 - "$work" "$golden/text.txt" << 'PYTHON'
import array, json, math, sys
folder, text = sys.argv[1], open(sys.argv[2], "rb").read()[:64]
data = open(folder + "/weights.safetensors", "rb").read()
size = int.from_bytes(data[:8], "little")
header = json.loads(data[8:8 + size])
def read(name):
    begin, end = header[name]["data_offsets"]
    numbers, shape = array.array("f", data[8 + size + begin:8 + size + end]), header[name]["shape"]
    return list(numbers) if len(shape) == 1 else [numbers[i:i + shape[1]] for i in range(0, len(numbers), shape[1])]
def norm(x, gain, bias):
    mean = sum(x) / len(x)
    scale = 1 / math.sqrt(sum((a - mean) ** 2 for a in x) / len(x) + 1e-5)
    return [(a - mean) * scale * g + b for a, g, b in zip(x, gain, bias)]
def linear(x, name):
    return [sum(a * w for a, w in zip(x, row)) + b for row, b in zip(read(name + ".weight"), read(name + ".bias"))]
layer = "stages.1.inside.0.attention."
tokens, positions = read("stages.0.token.weight"), read("stages.0.position.weight")
gain, bias = read(layer + "norm.weight"), read(layer + "norm.bias")
rows = [norm([a + b for a, b in zip(tokens[byte], positions[p])], gain, bias) for p, byte in enumerate(text)]
queries, keys = [linear(x, layer + "query") for x in rows], [linear(x, layer + "key") for x in rows]
def attend(head, width):
    for p, query in enumerate(queries):
        scores = [sum(query[c] * keys[q][c] for c in range(head * width, head * width + width)) / math.sqrt(width) for q in range(p + 1)]
        weights = [math.exp(score - max(scores)) for score in scores]
        yield [weight / sum(weights) for weight in weights] + [0] * (63 - p)
def load(name):
    data = open(f"{folder}/{name}.npy", "rb").read()
    return array.array("f", data[10 + int.from_bytes(data[8:10], "little"):])
maps = [list(attend(head, 8)) for head in range(4)]
for name, expected in ("head", maps[2]), ("mean", [[sum(x) / 4 for x in zip(*heads)] for heads in zip(*maps)]):
    found = load(name)
    worst = max(abs(a - b) for a, b in zip(found, (x for row in expected for x in row), strict=True))
    assert worst <= 1e-5, (name, worst)
PYTHON
exits 2 "a head that the layer lacks" "${attend[@]}" "${layer[@]}" --head 4
cp "$work/err" "$work/said"
succeeds "names the heads" grep -q -- '--head: expected a head from 0 to 3, found 4' "$work/said"
exits 2 "a stage without attention" "${attend[@]}" --layer stages.0
cp "$work/err" "$work/said"
succeeds "names the layers" grep -q -- 'attention (stages.1.inside.0, stages.1.inside.1), found "stages.0"; name one' "$work/said"
# A model without biases: norms have biases of 0, and the file has the model's weights alone.
python3 - "$golden/state.safetensors" "$work/plain.safetensors" << 'PYTHON'
import json, sys
data = open(sys.argv[1], "rb").read()
size = int.from_bytes(data[:8], "little")
header, result, numbers = json.loads(data[8:8 + size]), {}, b""
for name, entry in header.items():
    if name != "__metadata__" and not name.endswith("bias"):
        begin, end = entry["data_offsets"]
        entry["data_offsets"] = [len(numbers), len(numbers) + end - begin]
        numbers += data[8 + size + begin:8 + size + end]
        result["_orig_mod." + name] = entry
text = json.dumps(result).encode()
open(sys.argv[2], "wb").write(len(text).to_bytes(8, "little") + text + numbers)
PYTHON
succeeds "import a state dict without biases" "${import[@]}" --set defaults.bias=false "$work/plain.safetensors" -o "$work/plain"
cp "$work/err" "$work/said"
succeeds "fills the biases of 5 norms" grep -q ', filled 5 weights with a number$' "$work/said"
exits 2 "another program's names" "${import[@]}" "$root/test/golden/expected/vanilla.weights.safetensors" -o "$work/none"
exits 1 "writes nothing" test -e "$work/none"

finish

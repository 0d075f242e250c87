#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Converts a state dict with the names of nanoGPT's model to weights of models/tiny/nanogpt.json, at any size.

Usage: nanogpt_weights.py STATE.safetensors OUT.safetensors

A checkpoint of PyTorch becomes such a file by
    safetensors.torch.save_file({k: v.contiguous().clone() for k, v in torch.load("ckpt.pt")["model"].items()}, "state.safetensors")
The map of queries, keys and values is split into three. A prefix "_orig_mod." is left out, as are the head, which is the
table of tokens, and buffers of masks. A norm without a bias gets one of zeros.
"""
import json
import re
import sys

BLOCK = {
    "ln_1": "attention.norm", "attn.c_proj": "attention.output",
    "ln_2": "feed_forward.norm", "mlp.c_fc": "feed_forward.in", "mlp.c_proj": "feed_forward.out",
}
WHOLE = {"wte": "stages.0.token", "wpe": "stages.0.position", "ln_f": "stages.2"}
LEFT_OUT = re.compile(r"lm_head\.weight|transformer\.h\.\d+\.attn\.(masked_)?bias")


def fail(message):
    sys.exit(f"nanogpt_weights.py: {message}")


def read(path):
    """name -> (type, shape, bytes)"""
    try:
        with open(path, "rb") as file:
            data = file.read()
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + size])
    except (OSError, ValueError) as error:
        fail(f"{path}: expected a safetensors file, found none: {error}")
    result = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            result[name] = (entry["dtype"], entry["shape"], data[begin:end])
    return result


def split(tensor):
    """The three equal parts of a tensor's rows."""
    kind, (rows, *rest), data = tensor
    if rows % 3 or len(data) % 3:
        fail(f"expected queries, keys and values in equal parts, found {rows} rows")
    third = len(data) // 3
    return [(kind, [rows // 3, *rest], data[i * third:(i + 1) * third]) for i in range(3)]


def convert(state):
    result = {}
    for name, tensor in state.items():
        name = name.removeprefix("_orig_mod.")
        if LEFT_OUT.fullmatch(name):
            continue
        whole = re.fullmatch(r"transformer\.(\w+)\.(weight|bias)", name)
        block = re.fullmatch(r"transformer\.h\.(\d+)\.([\w.]+)\.(weight|bias)", name)
        if whole and whole[1] in WHOLE:
            result[f"{WHOLE[whole[1]]}.{whole[2]}"] = tensor
        elif block and block[2] in BLOCK:
            result[f"stages.1.inside.{block[1]}.{BLOCK[block[2]]}.{block[3]}"] = tensor
        elif block and block[2] == "attn.c_attn":
            for part, values in zip(("query", "key", "value"), split(tensor)):
                result[f"stages.1.inside.{block[1]}.attention.{part}.{block[3]}"] = values
        else:
            fail(f"expected the names of nanoGPT's model, found {name}")
    for name in [name for name in result if name.endswith("norm.weight") or name == "stages.2.weight"]:
        kind, shape, data = result[name]
        result.setdefault(name.removesuffix("weight") + "bias", (kind, shape, bytes(len(data))))
    return result


def write(path, tensors):
    header, offset = {}, 0
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "xb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, _, data in tensors.values():
            file.write(data)


def main():
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    tensors = convert(read(sys.argv[1]))
    try:
        write(sys.argv[2], tensors)
    except OSError as error:
        fail(f"{sys.argv[2]}: expected a file to create, found {error.strerror}")
    print(f"{len(tensors)} tensors")


if __name__ == "__main__":
    main()

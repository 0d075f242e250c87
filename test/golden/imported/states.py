#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes small state dicts with the names of the transformers library's models: states.py NAME FILE. Their numbers follow from
Python's random numbers, seeded with each tensor's name, so that make.py gives the library the same ones.
"""
import array
import json
import random
import sys

CONTEXT, VOCABULARY, WIDTH, LAYERS, HEADS, HIDDEN = 24, 61, 16, 2, 4, 40
TOKENS = [(7 * i * i + 3 * i + 5) % VOCABULARY for i in range(CONTEXT)]


def gpt2():
    shapes = {"transformer.wte.weight": (VOCABULARY, WIDTH), "transformer.wpe.weight": (CONTEXT, WIDTH)}
    for i in range(LAYERS):
        for name, inputs, outputs in (("attn.c_attn", WIDTH, 3 * WIDTH), ("attn.c_proj", WIDTH, WIDTH),
                                      ("mlp.c_fc", WIDTH, 4 * WIDTH), ("mlp.c_proj", 4 * WIDTH, WIDTH)):
            shapes[f"transformer.h.{i}.{name}.weight"] = (inputs, outputs)
            shapes[f"transformer.h.{i}.{name}.bias"] = (outputs,)
        for name in "ln_1", "ln_2":
            shapes[f"transformer.h.{i}.{name}.weight"] = shapes[f"transformer.h.{i}.{name}.bias"] = (WIDTH,)
    shapes["transformer.ln_f.weight"] = shapes["transformer.ln_f.bias"] = (WIDTH,)
    return shapes


def llama(pairs=HEADS):
    shapes = {"model.embed_tokens.weight": (VOCABULARY, WIDTH), "lm_head.weight": (VOCABULARY, WIDTH), "model.norm.weight": (WIDTH,)}
    keys = WIDTH // HEADS * pairs
    for i in range(LAYERS):
        for name, inputs, outputs in (("self_attn.q_proj", WIDTH, WIDTH), ("self_attn.k_proj", WIDTH, keys),
                                      ("self_attn.v_proj", WIDTH, keys), ("self_attn.o_proj", WIDTH, WIDTH),
                                      ("mlp.gate_proj", WIDTH, HIDDEN), ("mlp.up_proj", WIDTH, HIDDEN), ("mlp.down_proj", HIDDEN, WIDTH)):
            shapes[f"model.layers.{i}.{name}.weight"] = (outputs, inputs)
        for name in "input_layernorm", "post_attention_layernorm":
            shapes[f"model.layers.{i}.{name}.weight"] = (WIDTH,)
    return shapes


def qwen2():
    shapes = llama(2)
    for i in range(LAYERS):
        for name in "q_proj", "k_proj", "v_proj":
            shapes[f"model.layers.{i}.self_attn.{name}.bias"] = shapes[f"model.layers.{i}.self_attn.{name}.weight"][:1]
    return shapes


STATES = {"gpt2": gpt2, "llama": llama, "llama-grouped": lambda: llama(2), "qwen2": qwen2}


def draw(name, shape):
    """Numbers of a tensor, exact in f32: multiples of 2^-12 around 0, and around 1 for the gains of norms."""
    source, count = random.Random(name), 1
    for extent in shape:
        count *= extent
    center = 4096 if len(shape) == 1 and name.endswith("weight") else 0
    return [(center + source.randrange(-1200, 1201)) / 4096 for _ in range(count)]


def write(path, shapes):
    header, data = {}, b""
    for name, shape in shapes.items():
        numbers = array.array("f", draw(name, shape)).tobytes()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


if __name__ == "__main__":
    write(sys.argv[2], STATES[sys.argv[1]]())

#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Computes the logits of the state dicts of states.py with the transformers library (5.24.0 was used) in float64.

Usage: make.py            write NAME.logits, f32 numbers [rows, vocabulary] in little-endian order, next to this file
       make.py --verify   compute again and compare; exit 1 if a number differs by more than 1e-6
"""
import array
import pathlib
import sys

import torch
from states import CONTEXT, HEADS, HIDDEN, LAYERS, STATES, TOKENS, VOCABULARY, WIDTH, draw
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

HERE = pathlib.Path(__file__).parent


def build(name):
    if name == "gpt2":
        return GPT2LMHeadModel(GPT2Config(n_embd=WIDTH, n_head=HEADS, n_layer=LAYERS, n_positions=CONTEXT, vocab_size=VOCABULARY))
    config, model = (Qwen2Config, Qwen2ForCausalLM) if name == "qwen2" else (LlamaConfig, LlamaForCausalLM)
    return model(config(
        hidden_size=WIDTH, num_attention_heads=HEADS, num_key_value_heads=HEADS if name == "llama" else 2,
        num_hidden_layers=LAYERS, intermediate_size=HIDDEN, max_position_embeddings=CONTEXT, vocab_size=VOCABULARY))


def main():
    for name, shapes in STATES.items():
        model = build(name).double().eval()
        state = {key: torch.tensor(draw(key, shape), dtype=torch.float64).reshape(shape) for key, shape in shapes().items()}
        missing, unexpected = model.load_state_dict(state, strict=False)
        assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
        with torch.no_grad():
            logits = array.array("f", model(torch.tensor([TOKENS])).logits.flatten().tolist())
        path = HERE / f"{name}.logits"
        if "--verify" in sys.argv:
            recorded = array.array("f", path.read_bytes())
            worst = max(abs(a - b) for a, b in zip(logits, recorded, strict=True))
            print(f"{name}: {worst:.2g}")
            if worst > 1e-6:
                sys.exit(1)
        else:
            path.write_bytes(logits.tobytes())


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a state dict with the names of nanoGPT's model, a text and the model's logits of it, with PyTorch.

Usage: make.py            write state.safetensors, text.txt and logits.safetensors next to this file
       make.py --verify   compute again and compare; exit 1 if a number differs by more than 1e-6

The module was written from the architecture: learned positions, pre-norm layers with the exact GELU, one map for
queries, keys and values, a last norm, and a head that is the table of tokens.
"""
import pathlib
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from make_goldens import read_safetensors, write_safetensors  # noqa: E402

WIDTH, HEADS, LAYERS, CONTEXT, VOCABULARY = 32, 4, 2, 64, 256
TEXT = b"A state dict of another program is a table of names and tensors."


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        rows, length, _ = x.shape
        query, key, value = (part.view(rows, length, HEADS, -1).transpose(1, 2)
                             for part in self.c_attn(x).split(WIDTH, dim=2))
        scores = query @ key.transpose(2, 3) / (WIDTH // HEADS) ** 0.5
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(later, float("-inf")).softmax(-1) @ value
        return self.c_proj(mixed.transpose(1, 2).reshape(rows, length, WIDTH))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc = nn.Linear(WIDTH, 4 * WIDTH)
        self.c_proj = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.c_proj(functional.gelu(self.c_fc(x)))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH), FeedForward()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(VOCABULARY, WIDTH), "wpe": nn.Embedding(CONTEXT, WIDTH),
            "h": nn.ModuleList(Layer() for _ in range(LAYERS)), "ln_f": nn.LayerNorm(WIDTH)})
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, tokens):
        parts = self.transformer
        x = parts["wte"](tokens) + parts["wpe"](torch.arange(tokens.shape[1]))
        for layer in parts["h"]:
            x = layer(x)
        return self.lm_head(parts["ln_f"](x))


def main():
    model, random = Model(), np.random.default_rng(7)
    with torch.no_grad():  # biases and gains too, so that each tensor counts
        for name, tensor in model.named_parameters():
            center = 1 if "ln_" in name and name.endswith("weight") else 0
            deviation = 0.3 if tensor.dim() == 2 else 0.2
            tensor.copy_(torch.from_numpy(random.standard_normal(tensor.shape).astype(np.float32)) * deviation + center)
        logits = model(torch.tensor([list(TEXT)]))[0].numpy()
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    if "--verify" in sys.argv[1:]:
        kept = read_safetensors(HERE / "logits.safetensors")["logits"]
        same = all(np.array_equal(value, state[name])
                   for name, value in read_safetensors(HERE / "state.safetensors").items())
        return 0 if same and np.abs(kept - logits).max() <= 1e-6 else 1
    write_safetensors(HERE / "state.safetensors", state)
    write_safetensors(HERE / "logits.safetensors", {"logits": logits})
    (HERE / "text.txt").write_bytes(TEXT)
    print(f"logits of {logits.shape}, at most {np.abs(logits).max():.3g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A training step in PyTorch 2, eager or compiled: fused attention and AdamW, one linear map for query, key and value."""
import json
import sys

import torch
import torch.nn.functional as F

from families import Families
from model import Model, is_plain, serve, turns
from ops import Ops
from segments import Segments

SHAPES = 16  # rows of segments come in multiples of it where a compiler would meet each number otherwise


def fill_tables(model):
    """Rotary turns of every scale."""
    size, length = model.width // model.heads, model.context
    for factor in {1} | {int(word.split("@")[1]) for word in model.spec["stages"][1]["hierarchy"].split()}:
        rows = -(-length // factor)
        Ops.tables[rows, size] = [torch.from_numpy(part) for part in turns(rows, size)]


class Trainer:
    def __init__(self, model, checkpoint, threads):
        torch.set_num_threads(threads)
        self.version = torch.__version__
        weights, first, second = checkpoint
        self.weights = {name: torch.from_numpy(value.copy()).requires_grad_() for name, value in weights.items()}
        decayed = [value for name, value in self.weights.items() if model.decayed(name)]
        rest = [value for name, value in self.weights.items() if not model.decayed(name)]
        settings = model.training
        groups = [{"params": decayed, "weight_decay": settings["weight_decay"]}, {"params": rest, "weight_decay": 0.0}]
        self.clip = settings["clip"]
        self.optimizer = torch.optim.AdamW(groups, betas=tuple(settings["betas"]), eps=settings["epsilon"], fused=True)
        for name, value in self.weights.items():
            self.optimizer.state[value] = {"step": torch.tensor(float(json.loads(sys.argv[1])["step"])),
                                           "exp_avg": torch.from_numpy(first[name].copy()),
                                           "exp_avg_sq": torch.from_numpy(second[name].copy())}
        if isinstance(model, Model):
            fill_tables(model)
        self.model = model

        def loss(weights, tokens, *given):
            logits = model.logits(Ops, weights, tokens[:, :-1], *given)[:, model.first :]
            return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1 + model.first :].flatten())

        asked = json.loads(sys.argv[1])
        if isinstance(model, Segments) and asked["compile"] and not asked["forced_factor"]:
            model.multiple = SHAPES
        self.loss = torch.compile(loss, dynamic=False) if asked["compile"] else loss

    def step(self, tokens, number, rate):
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        tokens = torch.from_numpy(tokens).long()
        loss = self.loss(self.weights, tokens, *self.model.given(self.weights, tokens[:, :-1]))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights.values(), self.clip)
        self.optimizer.step()
        return loss.item()


def make_model(spec):
    is_post = spec["defaults"].get("placement") == "post"
    return Model(spec) if is_plain(spec) else Segments(spec) if is_post else Families(spec)


serve(Trainer, make_model)

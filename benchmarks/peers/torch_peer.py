# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A training step in PyTorch 2, eager or compiled, with fused AdamW: of a written model, which has fused attention and one linear map
for query, key and value; or of the file that `sluice export` prints."""
import importlib.util
import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

from families import Families
from model import Model, is_plain, serve, training, turns
from ops import Ops
from segments import Segments

SHAPES = 16  # rows of segments come in multiples of it where a compiler would meet each number otherwise


def fill_tables(model):
    """Rotary turns of every scale."""
    size, length = model.width // model.heads, model.context
    for factor in {1} | {int(word.split("@")[1]) for word in model.spec["stages"][1]["hierarchy"].split()}:
        rows = -(-length // factor)
        Ops.tables[rows, size] = [torch.from_numpy(part) for part in turns(rows, size)]


class Exported:
    """The model of an exported file. It has the names of weights of the checkpoint."""

    join = staticmethod(dict)

    def __init__(self, spec, path):
        location = importlib.util.spec_from_file_location("exported", path)
        module = importlib.util.module_from_spec(location)
        location.loader.exec_module(module)
        self.module, self.training = module.Model(), training(spec)

    def place(self, weights):
        self.module.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in weights.items()})
        return {name: value for name, value in self.module.named_parameters() if value.requires_grad}

    def decayed(self, name):
        """Weight decay applies to the matrices of linear maps."""
        is_table = name.endswith(("token.weight", "position.weight"))
        return name.endswith(".weight") and not is_table and self.module.get_parameter(name).dim() == 2

    @staticmethod
    def given(_weights, _tokens):
        return ()

    def losses(self, _weights, tokens):
        objective, means = self.module.losses(tokens)
        return objective, means["next"]


class Trainer:
    def __init__(self, model, checkpoint, threads):
        torch.set_num_threads(threads)
        self.version = torch.__version__
        weights, first, second = checkpoint
        if isinstance(model, Exported):
            self.weights = model.place(weights)
        else:
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

        def losses(weights, tokens, *given):
            logits = model.logits(Ops, weights, tokens[:, :-1], *given)[:, model.first :]
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1 + model.first :].flatten())
            return loss, loss

        losses = model.losses if isinstance(model, Exported) else losses
        asked = json.loads(sys.argv[1])
        if isinstance(model, Segments) and asked["compile"] and not asked["forced_factor"]:
            model.multiple = SHAPES
        self.losses = torch.compile(losses, dynamic=False) if asked["compile"] else losses

    def step(self, tokens, number, rate):
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        tokens = torch.from_numpy(tokens).long()
        objective, loss = self.losses(self.weights, tokens, *self.model.given(self.weights, tokens[:, :-1]))
        objective.backward()
        torch.nn.utils.clip_grad_norm_(self.weights.values(), self.clip)
        self.optimizer.step()
        return loss.item()


def make_model(spec):
    if exported := json.loads(sys.argv[1])["exported"]:
        return Exported(spec, Path(exported))
    is_post = spec["defaults"].get("placement") == "post"
    return Model(spec) if is_plain(spec) else Segments(spec) if is_post else Families(spec)


serve(Trainer, make_model)

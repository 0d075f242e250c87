#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the model of DIR/out with DIR/logits.npy and DIR/eval.json: compare-export.py NAME DIR."""
import importlib.util
import json
import sys
from pathlib import Path

import numpy
import torch

name, folder = sys.argv[1], Path(sys.argv[2])
location = importlib.util.spec_from_file_location("model", folder / "out" / "model.py")
module = importlib.util.module_from_spec(location)
location.loader.exec_module(module)
model = module.load()
tokens = torch.tensor(list((folder / "short").read_bytes()))[None]
worst, text = 0.0, []
with torch.no_grad():
    if (folder / "logits.npy").exists():
        wanted = torch.from_numpy(numpy.load(folder / "logits.npy"))
        found = model(tokens)[0]
        worst = ((found - wanted).abs().max() / wanted.abs().max()).item()
        text.append(f"logits {worst:.1e} of {wanted.abs().max():.2f}")
    objective, means = model.losses(tokens)
    try:
        wanted = json.loads((folder / "eval.json").read_text())
        key = next(key for key in ("loss", "nats_per_token", "bits_per_token") if key in wanted)
        text.append(f"losses {({k: round(v.item(), 6) for k, v in means.items()})}, {key} {wanted[key]}")
    except ValueError:
        text.append(f"losses {({k: round(v.item(), 6) for k, v in means.items()})}")
has_bf16 = "def bf16" in (folder / "out" / "model.py").read_text()
bound = 2**-6 if has_bf16 else 1e-5
print(f"{name}: {', '.join(text)}{'' if worst <= bound else ' FAILED'}", flush=True)
sys.exit(worst > bound)

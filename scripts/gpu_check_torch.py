#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The products and training steps of a bundle (scripts/gpu-check.sh) in PyTorch, which multiplies through cuBLAS.

Usage: gpu_check_torch.py BUNDLE OUT.json
Writes {"torch", "gpu", "rows": {label: TFLOP/s}, "steps": {label: {"eager_ms", "compile_ms", "parameters"}},
"notes": [...]}, or {"missing": why}.
"""
import json
import math
import os
import statistics
import subprocess
import sys
import time

bundle_folder, out_path = sys.argv[1], sys.argv[2]


def leave(result):
    with open(out_path, "w") as file:
        json.dump(result, file, indent=1)


try:
    import torch
    import torch.nn.functional as F
except ImportError:
    leave({"missing": "not installed"})
    sys.exit(0)
if not torch.cuda.is_available():
    leave({"missing": f"{torch.__version__} is installed, but finds no GPU"})
    sys.exit(0)

torch.manual_seed(0)
device = "cuda"
notes = []


def seconds(run, repetitions=15, inner=4):
    """Median time of a call on the GPU, by events."""
    for _ in range(3):
        run()
    times = []
    for _ in range(repetitions):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(inner):
            run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e-3 / inner)
    return statistics.median(times)


def random(*shape):
    return torch.randn(*shape, device=device, dtype=torch.bfloat16)


def text_like(vocabulary, rows, columns):
    """The tokens that Sluice is timed with: as often as in text."""
    program = os.path.join(bundle_folder, "sluice-gpu-check")
    said = subprocess.run([program, "tokens", str(vocabulary), str(rows * columns)], check=True, capture_output=True)
    return torch.tensor([int(line) for line in said.stdout.split()], device=device).view(rows, columns)


def flash():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel(SDPBackend.FLASH_ATTENTION)


def rate(row):
    """TFLOP/s of a row of the table."""
    shape = row["torch"]
    if shape["op"] in ("matmul", "weight_gradient"):
        m, n, k = shape["rows"], shape["columns"], shape["inner"]
        if shape["op"] == "matmul":
            x, w = random(m, k), random(n, k)
            run = lambda: torch.matmul(x, w.t())
        else:
            g, x = random(k, m), random(k, n)
            run = lambda: torch.matmul(g.t(), x)
        return 2 * m * n * k / seconds(run) / 1e12
    size = (shape["batch"], shape["heads"], shape["positions"], shape["size"])
    q, k, v = (random(*size).requires_grad_() for _ in range(3))
    with flash():
        attend = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=shape["causal"])
        if shape["op"] == "attention":
            with torch.no_grad():
                return row["flops"] / seconds(attend) / 1e12
        out = attend()
        gradient = torch.randn_like(out)
        back = lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True)
        return row["flops"] / seconds(back) / 1e12


class Layer(torch.nn.Module):
    """A pre-norm layer as docs/spec.md has it."""

    def __init__(self, d, settings):
        super().__init__()
        self.heads = settings["heads"]
        hidden = settings.get("feed_forward", 4 * d)
        self.attention_norm, self.feed_forward_norm = torch.nn.LayerNorm(d), torch.nn.LayerNorm(d)
        self.qkv, self.output = torch.nn.Linear(d, 3 * d), torch.nn.Linear(d, d)
        self.inner, self.outer = torch.nn.Linear(d, hidden), torch.nn.Linear(hidden, d)
        self.causal = settings.get("mask", "causal") == "causal"
        self.rotary = bool(settings.get("rotary", False))
        self.activation = {
            "relu": F.relu,
            "gelu": F.gelu,
            "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        }[settings.get("activation", "gelu")]

    def rotate(self, x):
        positions, size = x.shape[-2], x.shape[-1]
        angle = torch.arange(positions, device=x.device)[:, None] * 10000 ** (
            -torch.arange(0, size, 2, device=x.device) / size
        )
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.attention_norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.rotary:
            q, k = self.rotate(q), self.rotate(k)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.output(mixed.transpose(1, 2).reshape(b, t, d))
        return x + self.outer(self.activation(self.inner(self.feed_forward_norm(x))))


class Model(torch.nn.Module):
    """Embedding, one stack or an hourglass of one shortened level (average, repeat), head."""

    def __init__(self, spec):
        super().__init__()
        d, settings = spec["width"], spec["defaults"]
        self.embedding = torch.nn.Embedding(spec["vocabulary"], d)
        self.head = torch.nn.Linear(d, spec["vocabulary"], bias=False)
        body = spec["stages"][1]
        levels = body["hierarchy"].split() if body["op"] == "hourglass" else [f"{body['count']}@1"]
        counts = [int(level.split("@")[0]) for level in levels]
        self.factor = int(levels[1].split("@")[1]) if len(levels) == 3 else 1
        stack = lambda count: torch.nn.Sequential(*(Layer(d, settings) for _ in range(count)))
        norm = lambda: torch.nn.LayerNorm(d) if body["op"] == "hourglass" else torch.nn.Identity()
        self.stacks = torch.nn.ModuleList(stack(count) for count in counts)
        self.norms = torch.nn.ModuleList(norm() for _ in counts)

    def forward(self, tokens, targets):
        x = self.norms[0](self.stacks[0](self.embedding(tokens)))
        if len(self.stacks) == 3:
            k = self.factor
            shifted = F.pad(x, (0, 0, k - 1, 0))[:, : x.shape[1]]
            coarse = shifted.unflatten(1, (-1, k)).mean(2)
            coarse = self.norms[1](self.stacks[1](coarse))
            x = x + coarse.repeat_interleave(k, 1)
            x = self.norms[2](self.stacks[2](x))
        return F.cross_entropy(self.head(x).flatten(0, 1).float(), targets.flatten())


def step_times(spec):
    """Milliseconds of a training step: f32 weights, bf16 autocast, fused AdamW, clipped gradients. "compile_ms" is the faster of
    torch.compile's default mode and "reduce-overhead", which launches CUDA graphs."""
    tokens = text_like(spec["vocabulary"], spec["batch"], spec["context"] + 1)
    result = {}
    for mode in ("eager", "default", "reduce-overhead"):
        try:
            model = Model(spec).to(device)
            result["parameters"] = sum(p.numel() for p in model.parameters())
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), fused=True)
            forward = model if mode == "eager" else torch.compile(model, mode=mode)

            def step():
                with torch.autocast(device, dtype=torch.bfloat16):
                    loss = forward(tokens[:, :-1], tokens[:, 1:])
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)

            result[mode + "_ms"] = 1e3 * seconds(step, repetitions=9, inner=1)
            if mode != "eager":
                result["compile_ms"] = min(result[mode + "_ms"], result.get("compile_ms", math.inf))
        except Exception as error:  # a machine without a C compiler cannot run torch.compile
            notes.append(f"{mode}: {type(error).__name__}: {str(error)[:300]}")
    return result


with open(os.path.join(bundle_folder, "bundle.json")) as file:
    bundle = json.load(file)
began = time.monotonic()
rows, steps = {}, {}
for row in bundle["rows"]:
    try:
        rows[row["label"]] = rate(row)
    except Exception as error:
        notes.append(f"{row['label']}: {type(error).__name__}: {str(error)[:300]}")
result = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "rows": rows, "steps": steps, "notes": notes}
leave(result)  # the results so far, in case the steps take too long
for timed in bundle["timed"]:
    with open(os.path.join(bundle_folder, os.path.basename(timed["spec"]))) as file:
        steps[timed["label"]] = step_times(json.load(file))
    leave(result)
result["seconds"] = time.monotonic() - began
leave(result)

# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generation by LlamaForCausalLM of the transformers library: eager, whose cache grows, or torch.compile, with a static cache."""
import inspect
import json
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

from stepping import serve


class Stepper:
    @torch.inference_mode()
    def __init__(self, settings):
        torch.set_num_threads(settings["threads"])
        folder = Path(settings["folder"])
        self.model = LlamaForCausalLM(LlamaConfig(**json.loads((folder / "config.json").read_text())))
        self.model.load_state_dict(load_file(folder / "state.safetensors"))
        self.model.to({"f32": torch.float32, "bf16": torch.bfloat16}[settings["type"]]).eval()
        self.settings, self.version = settings, f"{transformers.__version__}, torch {torch.__version__}"
        parameters = inspect.signature(self.model.forward).parameters
        self.cache_name = "cache" if "cache" in parameters else "past_key_values"  # its older name
        self.step = torch.compile(self.model, dynamic=False) if settings["compile"] else self.model
        self.static = {}
        if settings["compile"]:
            self.start(1)
            for _ in range(2):  # a prompt, which is not compiled, and a step, which is
                self.place(torch.zeros(1, 1, dtype=torch.int32).numpy())
                self.run()

    @torch.inference_mode()
    def start(self, rows):
        self.cache, self.first = None, True
        if self.settings["compile"]:
            if rows not in self.static:
                self.static[rows] = StaticCache(config=self.model.config, max_cache_len=self.settings["context"])
            self.cache = self.static[rows]
            self.cache.reset()

    def place(self, tokens):
        self.tokens = torch.from_numpy(tokens).long()

    @torch.inference_mode()
    def run(self):
        program = self.model if self.first else self.step
        result = program(self.tokens, use_cache=True, logits_to_keep=1, **{self.cache_name: self.cache})
        self.cache, self.output, self.first = getattr(result, self.cache_name), result.logits, False

    def logits(self):
        return self.output[:, -1].float().numpy()


serve(Stepper)

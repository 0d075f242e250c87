#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares imported weights with other programs: trial_import.py PROGRAM MODELS (scripts/trial-import.sh describes it)."""
import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch
import transformers
from safetensors.torch import save_file

BOUND = 1e-5  # of the largest logit; sums of f32 in another order
ROOT = Path(__file__).parent.parent


def randomize(model, seed):
    """Gives every parameter random numbers, biases and norms too, so that none is without effect."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            numbers = torch.randn(parameter.shape, generator=generator)
            is_norm = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(1 + 0.1 * numbers if is_norm else 0.1 * numbers if parameter.dim() == 1 else
                            numbers * 0.7 / parameter.shape[-1]**0.5)
    return model.eval()


def make_nanogpt():
    location = importlib.util.spec_from_file_location("make", ROOT / "test/golden/nanogpt/make.py")
    module = importlib.util.module_from_spec(location)
    location.loader.exec_module(module)
    settings = {"vocabulary": module.VOCABULARY, "context": module.CONTEXT, "width": module.WIDTH,
                "defaults.heads": module.HEADS, "stages.1.count": module.LAYERS}
    return module.Model(), settings


def make_gpt2(width, heads, layers, context, vocabulary, **keys):
    config = transformers.GPT2Config(n_embd=width, n_head=heads, n_layer=layers, n_positions=context, vocab_size=vocabulary, **keys)
    settings = {"vocabulary": vocabulary, "context": context, "width": width, "defaults.heads": heads, "stages.1.count": layers,
                "defaults.epsilon": config.layer_norm_epsilon}
    return transformers.GPT2LMHeadModel(config), settings


def make_llama(width, heads, pairs, layers, context, vocabulary, base=10000.0, family="Llama", **keys):
    hidden = width * 8 // 3 // 8 * 8
    config = getattr(transformers, f"{family}Config")(
        hidden_size=width, num_attention_heads=heads, num_key_value_heads=pairs, num_hidden_layers=layers, intermediate_size=hidden,
        max_position_embeddings=context, vocab_size=vocabulary, rope_parameters={"rope_type": "default", "rope_theta": base}, **keys)
    settings = {"vocabulary": vocabulary, "context": context, "width": width, "defaults.heads": heads, "stages.1.count": layers,
                "defaults.key_value_heads": pairs, "defaults.feed_forward": hidden, "defaults.epsilon": config.rms_norm_eps,
                "defaults.rotary.base": base, "stages.3.tied": "true" if keys.get("tie_word_embeddings") else "false"}
    if family == "Qwen2" or keys.get("attention_bias"):
        settings["defaults.attention_in_bias"] = "true"
        settings["defaults.attention_out_bias"] = "false" if family == "Qwen2" else "true"
    if keys.get("sliding_window"):
        settings["defaults.mask"] = json.dumps({"window": [0, keys["sliding_window"]]})
    if keys.get("mlp_bias"):
        settings |= {"defaults.feed_forward_in_bias": "true", "defaults.feed_forward_out_bias": "true"}
    return getattr(transformers, f"{family}ForCausalLM")(config), settings


def sluice(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])


def compare(program, folder, models, spec, map_name, model, settings, flags=()):
    """Returns the largest difference of logits, relative to the largest logit."""
    context, vocabulary = settings["context"], settings["vocabulary"]
    # A head that is the table of tokens is one tensor in memory, which safetensors stores once.
    state = {name: tensor.clone().contiguous() for name, tensor in model.state_dict().items()}
    save_file(state, folder / "state.safetensors")
    tokens = torch.randint(vocabulary, (context,), generator=torch.Generator().manual_seed(1))
    numpy.save(folder / "tokens.npy", tokens.numpy().astype(numpy.int32))
    values = [word for key, value in {"batch": 1, **settings}.items() for word in ("--set", f"{key}={value}")]
    path = models / f"{spec}.json"
    sluice(program, "import", folder / "state.safetensors", "--map", models / f"{map_name}.map", "--model", path, *values, *flags,
           "-o", folder / "weights.safetensors")
    sluice(program, "compile", path, *values, "-o", folder / "a.sla")
    sluice(program, "logits", folder / "a.sla", "--weights", folder / "weights.safetensors", "--data", folder / "tokens.npy",
           "-o", folder / "logits.npy")
    with torch.no_grad():
        result = model(tokens[None])
        wanted = getattr(result, "logits", result)[0].double()
    found = torch.from_numpy(numpy.load(folder / "logits.npy")).double()
    if found.shape != wanted.shape:
        raise RuntimeError(f"expected logits of shape {tuple(wanted.shape)}, found {tuple(found.shape)}")
    return ((found - wanted).abs().max() / wanted.abs().max()).item()


def main():
    program, models = sys.argv[1], Path(sys.argv[2])
    trials = [
        ("nanoGPT", "nanogpt", "nanogpt", make_nanogpt(), ()),
        ("GPT-2", "gpt2", "gpt2", make_gpt2(64, 4, 3, 96, 307), ()),
        ("GPT-2, wider", "gpt2", "gpt2", make_gpt2(256, 8, 4, 256, 1009, layer_norm_epsilon=1e-6), ()),
        ("GPT-2, its own size", "gpt2", "gpt2", make_gpt2(768, 12, 12, 1024, 50257), ()),
        ("Llama", "llama", "llama", make_llama(64, 4, 4, 3, 96, 307), ("--size", "head_size=16")),
        ("Llama, grouped queries", "llama-grouped", "llama", make_llama(64, 4, 2, 3, 96, 307, 500000.0), ("--size", "head_size=16")),
        ("Llama, tied head", "llama", "llama-tied", make_llama(64, 4, 4, 2, 96, 307, tie_word_embeddings=True), ("--size", "head_size=16")),
        ("Llama, biases", "llama", "llama", make_llama(64, 4, 2, 2, 96, 307, attention_bias=True, mlp_bias=True), ("--size", "head_size=16")),
        ("Qwen2", "llama", "llama", make_llama(64, 4, 2, 2, 96, 307, 1e6, "Qwen2"), ("--size", "head_size=16")),
        ("Mistral, a window of 16", "llama", "llama",
         make_llama(64, 4, 2, 2, 96, 307, family="Mistral", sliding_window=16), ("--size", "head_size=16")),
        ("Llama, grouped queries, wider", "llama-grouped", "llama", make_llama(384, 6, 2, 4, 256, 1009), ()),
    ]
    failed = 0
    for seed, (name, spec, map_name, (model, settings), flags) in enumerate(trials):
        with tempfile.TemporaryDirectory() as folder:
            try:
                worst = compare(program, Path(folder), models, spec, map_name, randomize(model, seed), settings, flags)
            except RuntimeError as error:
                print(f"FAIL {name}: {error}")
                failed += 1
                continue
        is_fine = worst <= BOUND
        failed += not is_fine
        print(f"{'ok' if is_fine else 'FAIL'} {name}: {worst:.2g} of the largest logit", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()

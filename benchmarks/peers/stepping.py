# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The loop of a peer of benchmarks/compare_generation.py: generation token by token with a cache, of one text or of several at once.

A stepper has `version` and three methods; `rows` texts are of equal length at any time:
  start(rows)       empties the caches
  place(tokens)     takes the next tokens, int32 [rows, n]
  run()             computes the forward pass of these tokens, and no more: only its time counts
  logits()          returns the last token's logits, f32 [rows, vocabulary]
"""
import json
import sys
import time
from pathlib import Path

import numpy


def read_tokens(stepper, tokens):
    stepper.place(tokens)
    start = time.perf_counter()
    stepper.run()
    return time.perf_counter() - start


def compare_logits(stepper, texts, expected, prompt):
    """Returns the largest difference of a logit from `expected`, relative to the largest of these: of a prompt, then token by token."""
    stepper.start(len(texts))
    read_tokens(stepper, texts[:, :prompt])
    difference, largest = 0.0, 0.0
    for position in range(prompt, texts.shape[1] + 1):
        found, wanted = stepper.logits(), numpy.stack([logits[position - 1] for logits in expected])
        difference = max(difference, float(numpy.abs(found - wanted).max()))
        largest = max(largest, float(numpy.abs(wanted).max()))
        if position < texts.shape[1]:
            read_tokens(stepper, texts[:, position : position + 1])
    return difference / largest


def generate(stepper, prompts, count):
    """Returns the ids of `count` greedy tokens a text, int [rows, count], and the seconds of the steps that read them."""
    stepper.start(len(prompts))
    read_tokens(stepper, prompts)
    ids, seconds = [], 0.0
    for _ in range(count):
        chosen = stepper.logits().argmax(1).astype(numpy.int32)
        ids.append(chosen)
        seconds += read_tokens(stepper, chosen[:, None])
    return numpy.stack(ids, 1), seconds


def serve(make_stepper):
    """Answers a line of JSON for each line of JSON: {"check": rows} -> {"difference"}, {"generate": rows} -> {"seconds", "ids"}."""
    settings = json.loads(sys.argv[1])
    folder, prompt = Path(settings["folder"]), settings["prompt"]
    texts = numpy.stack([numpy.load(folder / f"text-{number}.npy") for number in range(settings["texts"])])
    try:
        stepper = make_stepper(settings)
    except Exception as error:  # such as a compiler that is missing; the caller reports it
        print(json.dumps({"failure": f"{type(error).__name__}: {error}".splitlines()[0]}), flush=True)
        return
    print(json.dumps({"version": stepper.version}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if rows := request.get("check"):
            expected = [numpy.load(folder / f"logits-{number}.npy", mmap_mode="r") for number in range(rows)]
            answer = {"difference": compare_logits(stepper, texts[:rows], expected, prompt)}
        else:
            prompts = texts[: request["generate"], :prompt]
            generate(stepper, prompts, min(8, texts.shape[1] - prompt))  # caches, after another program's turn
            ids, seconds = generate(stepper, prompts, texts.shape[1] - prompt)
            answer = {"seconds": seconds, "ids": ids.tolist()}
        print(json.dumps(answer), flush=True)

#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints a spec at width 64 and context 128, with one layer a level: shrink-spec.py SPEC.

SPEC is of models/successors, or one of models/papers with LSH attention, which then has chunks that end within the context."""
import json
import re
import sys

HASHES = {"buckets": 6, "chunk": 8}

spec = json.load(open(sys.argv[1]))
fine = spec["width"]
spec.update(context=128, batch=4, width=64)
spec["defaults"]["heads"] = 4
if "feed_forward" in spec["defaults"]:
    spec["defaults"]["feed_forward"] = 128
if "lsh" in str(spec):
    spec["defaults"].pop("dropout", None)
if "lsh" in spec["defaults"]:
    spec["defaults"].update(lsh=HASHES)
for stage in spec["stages"]:
    if "lsh" in stage:
        stage["lsh"] = HASHES
    if "hierarchy" in stage:
        stage["hierarchy"] = re.sub("[1-9][0-9]*@", "2@", stage["hierarchy"])
    if "lsh" in str(spec):
        stage.pop("dropout", None)
    if stage["op"] == "layers":
        stage["count"] = 1
        if "feed_forward" in stage:
            stage["feed_forward"] = 192
    if isinstance(stage.get("width"), int):
        stage["width"] = 96 if stage["width"] > fine else 64
    if stage["op"] == "hnet":  # of two levels
        stage.update(layers=[1, [1, 1, 1], 1], width=[64, 96], boundaries=[{"ratio": 2}, {"ratio": 2}])
        stage["local"]["mask"]["window"] = [0, 31]
        stage["global"]["feed_forward"] = 192
    for key, value in {"ngram_rows": 50, "threshold": 3, "ratio": {"from": 2, "to": 6, "steps": 10}}.items():
        if key in stage:
            stage[key] = value
    if stage.get("rule") == "coding_rate":
        stage["threshold"] = 0.5
    if "window" in str(stage.get("mask")):
        stage["mask"]["window"] = [0, 31]
spec["training"].pop("accumulate", None)
spec["training"].update(learning_rate=3e-3, schedule={"kind": "constant", "warmup": 2})
json.dump(spec, sys.stdout)

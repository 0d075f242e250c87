# Writes models/successors and small/dynamic with a composite stage in place of its expansion, and two encoders with the
# expansion in place of the stage.
import json
import pathlib
import sys

models, out = map(pathlib.Path, sys.argv[1:])
stages = {
    "successors/megabyte": (1, {"op": "megabyte", "patch": 8, "width": 2048, "layers": [14, 14]}),
    "successors/block-transformer": (1, {"op": "block_transformer", "block": 4, "layers": [6, 6]}),
    "successors/spacebyte": (1, {"op": "spacebyte", "layers": [12, 24, 12], "width": 1536, "boundaries": {"name": "words"},
                                 "local": {"mask": {"window": [0, 768]}}}),
    "successors/hnet": (1, {"op": "hnet", "layers": [4, 22, 4], "width": 1536, "boundaries": {"name": "chunks"},
                            "local": {"mask": {"window": [0, 1024]}}, "global": {"feed_forward": 4096}}),
    "successors/blt": (5, {"op": "blt", "layers": [1, 24, 7], "width": 1536, "local": {"mask": {"window": [0, 512]}},
                           "boundaries": {"name": "patches", "rule": "entropy", "loss": "small", "threshold": 1.3},
                           "global": {"heads": 24, "feed_forward": 4096}}),
    "small/dynamic": (1, {"op": "dynamic", "layers": [2, 8, 2], "boundaries": {"name": "words", "rule": "whitespace"}}),
}
layer = {"op": "layer", "mask": "bidirectional"}
layers = {"op": "layers", "count": 2, "mask": "bidirectional"}
norm = {"op": "norm", "to": "memory"}
expansions = {
    "papers/umst-tnt": [layer | {"within": "words"}, layer] * 6 + [norm],
    "papers/umst-multi-stage": [
        layers, {"op": "shorten", "segments": "words"}, layers | {"to": "means"}, {"op": "norm"},
        {"op": "graph_convolution", "edges": "links"}, {"op": "project", "activation": "relu"}, {"op": "dropout", "rate": 0.1},
        {"op": "add", "with": "means"}, layers, norm],
}


def write(name, first, last, stages):
    spec = json.loads((models / f"{name}.json").read_text())
    spec["stages"][first:last] = stages
    (out / pathlib.Path(name).name).with_suffix(".json").write_text(json.dumps(spec))


for name, (first, stage) in stages.items():
    write(name, first, -1, [stage])
for name, expansion in expansions.items():
    write(name, 6, 7, expansion)

# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The weights of docs/spec.md, in the order of that page: what each stage declares."""
import math


class SharedTensors(dict):
    """Tensors by name. A tensor that several stages share has the name of the first; `owners` has it by the others'."""

    def __init__(self):
        super().__init__()
        self.owners = {}

    def __missing__(self, name):
        return self[self.owners[name]]

    def get(self, name, default=None):
        return super().get(self.owners.get(name, name), default)


class Weights:
    """Declares what the stages of a Model have."""

    def role(self, name):
        """What a tensor is for in a stage of the spec that shares its weights; None where it is the stage's own."""
        prefix, stage = self.written
        part = name.removeprefix(prefix)
        if "share" not in stage or stage["op"] not in ("embedding", "head", "loss"):
            return part if "share" in stage else None
        return "table" if part in ("token.weight", "weight") else None

    def weight(self, name, shape, kind):
        role = self.role(name)
        owner = name if role is None else self.roles.setdefault((self.written[1]["share"], role), name)
        if owner != name:
            self.weights.owners[name] = owner
            return
        self.weights[name], self.kinds[name] = self.make(name, shape, kind), kind

    def linear_weights(self, name, out, inputs, bias):
        self.weight(name + "weight", (out, inputs), "matrix")
        if bias:
            self.weight(name + "bias", (out,), "bias")

    def norm_weights(self, name, norm, width=0):
        self.weight(name + "weight", (width or self.width,), "gain")
        if norm == "layer":
            self.weight(name + "bias", (width or self.width,), "bias")

    def declare(self, prefix, stage):
        op, d = stage["op"], self.width
        self.frozen |= {prefix} if stage.get("frozen", False) else set()
        if self.declare_block(prefix, stage) or self.declare_attend(prefix, stage) or self.declare_umst(prefix, stage):
            return
        if op == "embedding":
            own = self.spec["inputs"][stage["input"]] if "input" in stage else self.spec
            vocabulary = own.get("vocabulary", self.vocabulary)
            self.weight(prefix + "token.weight", (vocabulary, d), "embedding")
            for n in stage.get("ngrams", []):
                self.weight(f"{prefix}ngram.{n}.weight", (stage.get("ngram_rows", 65536), d), "embedding")
            if stage.get("positions") == "learned":
                self.weight(prefix + "position.weight", (own["context"], d), "embedding")
            if "input" not in stage:
                self.embedding = prefix + "token.weight"
        elif op == "layer":
            self.declare_layer(prefix, self.settings(stage))
        elif op == "shift" and stage.get("start") == "null":
            self.weight(prefix + "start.weight", (d,), "embedding")
        elif op == "recurrence":
            self.declare_recurrence(prefix, stage)
        elif op == "positions":
            rows = self.context
            if self.coarse:  # of segments: the most, and a row that is read ahead
                cut, = (s for s in self.spec["stages"] if s.get("name") == self.coarse)
                spread = [s.get("by", 1) for s in self.spec["stages"] if s["op"] == "upsample" and s.get("segments") == self.coarse]
                rows = math.ceil(self.context * cut.get("capacity", 1)) + 1 - min(spread)
            self.weight(prefix + "weight", (rows, stage.get("columns", d)), "embedding")
        elif op == "norm":
            self.norm_weights(prefix, stage.get("norm", self.defaults["norm"]))
        elif op == "boundaries" and "ratio" in stage:
            self.linear_weights(prefix + "own.", d, d, False)
            self.linear_weights(prefix + "previous.", d, d, False)
        elif op == "boundaries" and "predictor" in stage:
            self.linear_weights(prefix + "in.", stage["predictor"], d, True)
            self.linear_weights(prefix + "out.", 1, stage["predictor"], True)
        elif op == "shorten" and stage.get("method") in ("linear", "convolution"):
            self.linear_weights(prefix, d, stage.get("window", stage["factor"]) * d, True)
        elif op == "upsample" and stage.get("method") in ("linear", "transposed"):
            groups = stage.get("window", stage["factor"]) // stage["factor"]
            self.linear_weights(prefix, stage["factor"] * d, groups * d, True)
        elif op in ("head", "loss"):
            if not stage.get("tied", False):
                self.weight(prefix + "weight", (self.vocabulary, d), "matrix")
            if stage.get("bias", False):
                self.weight(prefix + "bias", (self.vocabulary,), "bias")

    @staticmethod
    def groups_of(s):
        """Groups of heads, of `over` as a list or of `scales`; none where all heads read alike."""
        return s["over"] if isinstance(s.get("over"), list) else s.get("scales", [])

    def declare_groups(self, prefix, s):
        groups, d, bias = self.groups_of(s), self.width, s["bias"]
        heads, keys = s["heads"] // len(groups) * s["head_size"], s["key_value_heads"] // len(groups) * s["head_size"]
        for index, group in enumerate(groups):
            name = f"{prefix}attention.{index}."
            if "stream" in group and s["placement"] == "pre":
                self.norm_weights(name + "over.norm.", s["norm"])
            for which, size in (("query", heads), ("key", keys), ("value", keys)):
                self.linear_weights(f"{name}{which}.", size, d, bias)
            self.linear_weights(name + "output.", d, heads, False)
        if bias:
            self.weight(prefix + "attention.output.bias", (d,), "bias")

    def declare_layer(self, prefix, s):
        d, bias, is_xl = self.width, s["bias"], s["relative"] in ("xl", "xl_shared")
        normed = not s.get("attention_norm", True)
        if not normed:
            self.norm_weights(prefix + "attention.norm.", s["norm"])
        if self.groups_of(s):
            self.declare_groups(prefix, s)
            self.declare_feed_forward(prefix, s)
            return
        if s["lsh"]:
            self.declare_hashed(prefix, s)
            self.declare_feed_forward(prefix, s)
            return
        over = self.widths.get(s.get("over"), d)
        if "over" in s and not normed and s["placement"] == "pre":
            self.norm_weights(prefix + "attention.over.norm.", s["norm"], over)
        for name, heads in (("query", s["heads"]), ("key", s["key_value_heads"]), ("value", s["key_value_heads"])):
            has_bias = bias and not (is_xl and name == "query")
            self.linear_weights(f"{prefix}attention.{name}.", heads * s["head_size"], d if name == "query" else over, has_bias)
        if is_xl:
            self.declare_distances(prefix + "attention.relative.", s)
        elif "vectors" in s["relative"]:
            self.weight(prefix + "attention.relative.table", (2 * s["relative"]["vectors"] + 1, s["head_size"]), "embedding")
        elif "signed_bias" in s["relative"]:
            self.weight(prefix + "attention.relative.table", (2 * s["relative"]["signed_bias"] + 1, s["heads"]), "bias")
        elif s["relative"] != "none":
            distances = min(s["relative"]["bias"], self.context)
            self.weight(prefix + "attention.relative.table", (distances, s["heads"]), "bias")
        self.linear_weights(prefix + "attention.output.", d, s["heads"] * s["head_size"], bias)
        self.declare_feed_forward(prefix, s)

    def declare_feed_forward(self, prefix, s):
        d, bias = self.width, s["bias"]
        self.norm_weights(prefix + "feed_forward.norm.", s["norm"])
        if s["activation"] == "swiglu":
            self.linear_weights(prefix + "feed_forward.gate.", s["feed_forward"], d, bias)
        self.linear_weights(prefix + "feed_forward.in.", s["feed_forward"], d, bias)
        self.linear_weights(prefix + "feed_forward.out.", d, s["feed_forward"], bias)

    def declare_distances(self, name, s):
        """Transformer-XL's map of sinusoids, and its two biases: the layer's own, or those of all that share them."""
        size = s["heads"] * s["head_size"]
        self.weight(name + "weight", (size, self.width), "matrix")
        if s["relative"] == "xl" or not self.shared:
            self.weight(name + "content.bias", (size,), "bias")
            self.weight(name + "position.bias", (size,), "bias")
        if s["relative"] == "xl_shared":
            self.shared = self.shared or name
        self.biases[name] = self.shared if s["relative"] == "xl_shared" else name

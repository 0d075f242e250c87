# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The models of docs/spec.md in PyTorch, written from that page alone so that it can disagree with the compiler.

It favours the page's own words over speed: attention forms the whole score matrix, a shift is an index computation,
every shape is spelled out. Dropout must be 0. Shapes below: B rows, N positions, d features, V token ids.
"""
import math

import torch
import torch.nn.functional as F

from attend import Attend
from attention import Attention
from blocks import Blocks, activated
from hashes import Hashes
from predictors import Predictors
from recurrence import Recurrences
from segments import Segments
from umst import Umst
from weights import SharedTensors, Weights

LAYER_DEFAULTS = {
    "norm": "layer", "placement": "pre", "epsilon": 1e-5, "activation": "gelu", "dropout": 0,
    "attention_dropout": 0, "mask": "causal", "rotary": False, "bias": True, "relative": "none",
    "distances": "tokens", "lsh": False,
}


class Stream:
    """A sequence [B, ceil(N / factor), d], still to be shifted by `shift` positions (shifts are lazy)."""

    def __init__(self, x, factor, shift=0, counts=None, zero=None):
        self.x, self.factor, self.shift = x, factor, shift
        self.zero = zero  # [d] of a norm's result: the norm of zeros
        self.counts = counts  # [B] of a named input's stream: valid rows for later keys

    def at(self, positions, null=0.0):
        """x[p - shift] for each p of `positions`; `null`, a number or [d], outside the unshifted sequence."""
        source = positions - self.shift
        inside = (source >= 0) & (source < self.x.shape[1])
        rows = self.x[:, source.clamp(0, self.x.shape[1] - 1)]
        return torch.where(inside[None, :, None], rows, torch.as_tensor(null, dtype=self.x.dtype))

    def rows(self):
        return self.at(torch.arange(self.x.shape[1])) if self.shift else self.x


class Model(Attend, Attention, Blocks, Hashes, Predictors, Recurrences, Segments, Umst, Weights):
    """Weights by name (`weights`, filled by `make`) and `logits`. `make(name, shape, kind)` returns one weight;
    kind is gain, bias, embedding or matrix."""

    def __init__(self, spec, make):
        self.spec, self.make, self.weights, self.kinds = spec, make, SharedTensors(), {}
        self.width, self.context, self.vocabulary = spec["width"], spec["context"], spec["vocabulary"]
        self.defaults = {**LAYER_DEFAULTS, **spec.get("defaults", {})}
        self.shared, self.biases = "", {}
        self.ends = {}  # by segmentation: a list of positions for each row of the batch
        self.begins, self.chances = {}, {}  # by segmentation: whether bits begin segments; a router's p
        self.bits = {}  # by segmentation of an input: the bits [B, N] that end segments
        self.lengths, self.bits_before = {}, {}  # by segmentation: rows that were cut; bits of a predictor before each
        self.cuts = {}  # by segmentation: the one that it cuts again, None of the tokens
        self.is_training, self.closest = True, math.inf
        # Prefixes of stages; the segments of a stage (None: the tokens), and by name of a stream.
        self.frozen, self.coarse, self.places = set(), None, {}
        self.stages, self.widths = [], {}  # by name: the width of a stream; `width` is the width of a stage's input
        self.roles = {}  # by share and role: the name of the tensor
        for index, stage in enumerate(spec["stages"]):
            self.written = f"stages.{index}.", stage  # the stage of the spec that is declared
            self.expand(f"stages.{index}.", stage)

    def trains(self, name):
        """Returns true if training changes a weight."""
        return not any(name.startswith(prefix) for prefix in self.frozen)

    # Expands composite stages to (name prefix, stage) pairs; weights.py declares the weights on the way.

    def settings(self, stage):
        result = {**self.defaults, **stage}
        result.setdefault("key_value_heads", result["heads"])
        result.setdefault("head_size", self.width // result["heads"])
        result.setdefault("feed_forward", 4 * self.width)
        if result["dropout"] or result["attention_dropout"]:
            raise ValueError("expected a golden without dropout")
        return result

    def expand(self, prefix, stage):
        op = stage["op"]
        if op == "layers":
            inner = {k: v for k, v in stage.items() if k not in ("op", "count", "to")}
            parts = [{**inner, "op": "layer"} for _ in range(stage["count"])]
            self.expand_parts(prefix, parts, stage)
        elif op == "hourglass":
            levels = [tuple(map(int, word.split("@"))) for word in stage["hierarchy"].split()]
            self.expand_parts(prefix, self.level(stage, levels), stage)
        elif op == "top_down":
            self.stages.append((prefix, {**stage, "parts": self.declare_scales(prefix, stage), "reads": self.width}))
        elif op == "bottom_up":
            self.expand_parts(prefix, self.bottom_up(stage), stage)
        else:
            if "segments" in stage:  # resampled by ends, not by a factor
                stage = {**stage, "op": {"shorten": "pool", "upsample": "spread"}.get(op, op)}
            width, self.width = self.width, self.widths.get(stage.get("from"), self.width)
            coarse = self.places.get(stage.get("from"), self.coarse)
            self.coarse = {"pool": stage.get("segments"), "spread": self.cuts.get(stage.get("segments")),
                           "embedding": None}.get(stage["op"], coarse)
            if op == "boundaries":
                self.cuts[stage["name"]] = self.coarse
            if op == "contrast":
                stage = {**stage, "of": self.coarse}
            if op == "attend":  # from segments, or over them
                stage = {**stage, "asks": self.coarse is not None}
            if "name_input" in stage:
                self.widths[stage["name_input"]] = self.width
            self.declare(prefix, stage)
            self.stages.append((prefix, {**stage, "reads": self.width}))
            if op in ("loss", "boundaries", "contrast"):  # whose result is unused
                self.width = width
                return
            if stage.get("method") == "stack":
                stage = {**stage, "width": self.stacked(stage, self.width)}
            self.width = self.spec["width"] if op == "embedding" else stage.get("width", self.width)
            if "to" in stage:
                self.widths[stage["to"]], self.places[stage["to"]] = self.width, self.coarse

    def expand_parts(self, prefix, parts, stage):
        parts[0] = {**parts[0], **({"from": stage["from"]} if "from" in stage else {})}
        parts[-1] = {**parts[-1], **({"to": stage["to"]} if "to" in stage else {})}
        for index, part in enumerate(parts):
            part = {k: f"{prefix}{v[1]}" if isinstance(v, tuple) else v for k, v in part.items()}
            if isinstance(part.get("over"), list):
                part["over"] = [{k: f"{prefix}{v[1]}" if isinstance(v, tuple) else v for k, v in source.items()}
                                for source in part["over"]]
            self.expand(f"{prefix}inside.{index}.", part)

    def bottom_up(self, stage):
        """Parts of a bottom_up stage, from section 3.3 of Subramanian et al. (2020): h^1 = e, the input;
        x^{k'} = mean of groups of h^k (repooled: of e), h^{k'} = layers of that; one layer with queries of e whose
        groups of heads read one coarse scale each; layers."""
        own = ("op", "hierarchy", "shorten", "pooling", "from", "to")
        settings = {k: v for k, v in stage.items() if k not in own}
        every = {**self.defaults, **settings}
        norm = {"op": "norm", "norm": every["norm"], "epsilon": every["epsilon"]}

        def stack(count):
            return [{**settings, "op": "layer"}] * count + ([norm] if count and every["placement"] == "pre" else [])

        levels = [tuple(map(int, word.split("@"))) for word in stage["hierarchy"].split()]
        repooled, parts = stage.get("pooling", "cascaded") == "repooled", []
        for (_, finer), (count, factor) in zip(levels, levels[1:]):
            whole = repooled or finer == 1
            parts.append({"op": "shorten", "factor": factor if whole else factor // finer,
                          "method": stage.get("shorten", "average"),
                          "from": ("stream", "1") if whole else ("stream", str(finer))})
            parts += stack(count)
            parts[-1] = {**parts[-1], "to": ("stream", str(factor))}
        parts[0] = {**{k: v for k, v in parts[0].items() if k != "from"}, "name_input": ("stream", "1")}
        over = [{"stream": ("stream", str(factor)), "mask": "complete"} for _, factor in levels[1:]]
        parts.append({**settings, "op": "layer", "from": ("stream", "1"), "over": over, "rotary": False})
        return parts + stack(levels[0][0])

    def level(self, stage, levels):
        """Parts of one hourglass level; `levels` [(layers, factor), ...] is what is left of the hierarchy, down to the
        coarsest and up to where the level around it goes on. A nested level is an `hourglass` stage with factors
        relative to its own input."""
        keys = [k for k in stage if k in LAYER_DEFAULTS or k in ("heads", "key_value_heads", "head_size",
                                                                 "feed_forward")]
        settings = {k: stage[k] for k in keys}
        pre_norm = {**self.defaults, **settings}["placement"] == "pre"
        norm_keys = ("norm", "epsilon")
        norm = {"op": "norm", **{k: {**self.defaults, **settings}[k] for k in norm_keys}}

        def stack(count):
            return [{**settings, "op": "layer"}] * count + ([norm] if pre_norm and count else [])

        count, factor = levels[0]
        if len(levels) == 1:
            return stack(count)
        relative = levels[1][1] // factor
        factors = [f for _, f in levels]
        end = factors.index(max(factors)) + 1
        while end < len(levels) and factors[end] >= factors[1]:
            end += 1
        inner = [(n, f // factors[1]) for n, f in levels[1:end]]
        if len(inner) == 1:
            middle = self.level(stage, inner)
        else:
            middle = [{**{k: v for k, v in stage.items() if k not in ("from", "to")},
                       "hierarchy": " ".join(f"{n}@{f}" for n, f in inner)}]
        # The skip is the shift's input; after a stack of 0 layers it is the level's own input.
        skip = ("stream", "skip")
        parts = stack(count) + self.down(stage, relative, norm, {**settings, "op": "layer"}) + middle
        reached = factors[end - 1]
        for layers, to in levels[end:]:
            has_skip = to == factor
            parts += self.up(stage, reached // to, norm, {**settings, "op": "layer"}, skip if has_skip else None)
            parts += stack(layers)
            reached = to
        return parts

    @staticmethod
    def level_shift(stage, relative):
        by, learned = stage.get("shift", relative - 1), stage.get("start") == "null"
        return {"op": "shift", "by": by, "start": "null" if by and learned else "zeros"}

    def down(self, stage, relative, norm, layer):
        skip, keys = ("stream", "skip"), ("stream", "keys")
        method = stage.get("shorten", "average")
        shift = self.level_shift(stage, relative)
        pool = {"op": "shorten", "factor": relative, "method": {"attention": "average",
                                                                "attention_linear": "linear"}.get(method, method)}
        if stage.get("start") == "norm":
            pool["start"] = "norm"
        if not method.startswith("attention"):
            after = stage.get("shifted") == "output"
            return [{**pool, "name_input": skip}] if after else [{**shift, "name_input": skip}, pool]
        mask = {"all": "causal", "group": {"window": [0, relative]}}[stage.get("shorten_keys", "all")]
        return [{**norm, "name_input": skip, "to": keys}, shift, pool, norm,
                {**layer, "over": keys, "mask": mask, "attention_norm": False}]

    def up(self, stage, relative, norm, layer, skip):
        method, keys = stage.get("upsample", "repeat"), ("stream", "coarse")
        if not method.startswith("attention"):
            shift = [self.level_shift(stage, relative)] if stage.get("shifted") == "output" else []
            norms = [norm] if stage.get("upsample_norm") else []
            return [{"op": "upsample", "factor": relative, "method": method}] + norms + shift + (
                [{"op": "add", "with": skip}] if skip else [])
        attend = {**layer, "over": keys, "mask": "causal", "attention_norm": False}
        if method == "attention":
            parts = [{**norm, "to": keys}, {**attend, "from": skip}]
        else:
            spread = method.removeprefix("attention_")
            parts = [{**norm, "to": keys}, {"op": "upsample", "factor": relative, "method": spread}, norm,
                     {"op": "add", "with": skip}, attend]
        return parts + [norm, {"op": "add", "with": skip}]

    def declare_scales(self, prefix, stage):
        """Weights of a `top_down`, which is evaluated whole, by `top_down` below. Per scale: its factor, the names of
        its resamplings' weights and of its layers."""
        d, s, number, scales = self.width, self.settings(stage), iter(range(1 << 16)), []

        def part():
            return f"{prefix}inside.{next(number)}."

        for layers, factor in (tuple(map(int, word.split("@"))) for word in stage["hierarchy"].split()):
            scale = {"factor": factor}
            if scales:
                scale["upsample"], _ = part(), part()
                if stage.get("upsample") == "linear":
                    self.linear_weights(scale["upsample"], scales[-1]["factor"] // factor * d, d, True)
            if factor > 1:
                scale["shorten"] = part()
                if stage.get("shorten") == "linear":
                    self.linear_weights(scale["shorten"], d, factor * d, True)
            if scales:
                scale["project"] = part()
                self.linear_weights(scale["project"], d, d, s["bias"])
                self.linear_weights(scale["project"] + "with.", d, d, False)
            scale["layers"] = [part() for _ in range(layers)]
            for name in scale["layers"]:
                self.declare_layer(name, s)
            if s["placement"] == "pre" and layers:
                scale["norm"] = part()
                self.norm_weights(scale["norm"], s["norm"])
            scales.append(scale)
        return scales

    # Evaluation.

    def linear(self, name, x):
        return F.linear(x, self.weights[name + "weight"], self.weights.get(name + "bias"))

    def norm(self, name, x, kind, epsilon):
        gain = self.weights[name + "weight"]
        if kind == "layer":
            return F.layer_norm(x, gain.shape, gain, self.weights[name + "bias"], epsilon)
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + epsilon) * gain

    def feed_forward(self, name, x, s):
        inner, kind = self.linear(name + "in.", x), s["activation"]
        inner = F.silu(self.linear(name + "gate.", x)) * inner if kind == "swiglu" else activated(kind, inner)
        return self.linear(name + "out.", inner)

    def layer(self, prefix, x, over, s, f, g, streams, counts=None):
        """x and `over` (None: x itself), of f and g tokens a position; `streams` are the streams of groups of heads;
        `counts` of keys [B] where they are given."""
        def normed(part, y):
            return self.norm(prefix + part + "norm.", y, s["norm"], s["epsilon"])

        def attend(y, keys):
            if self.groups_of(s):
                return self.grouped_attention(prefix + "attention.", y, {**s, "factor": f}, streams)
            if s["lsh"]:
                return self.hashed_attention(prefix + "attention.", y, s)
            return self.attention(prefix + "attention.", y, y if keys is None else keys, s, f, g, counts)

        def feed(y):
            return self.feed_forward(prefix + "feed_forward.", y, s)

        if s["placement"] == "post":
            x = normed("attention.", x + attend(x, over))
            return normed("feed_forward.", x + feed(x))
        if s.get("attention_norm", True):
            x = x + attend(normed("attention.", x), None if over is None else normed("attention.over.", over))
        else:
            x = x + attend(x, over)
        return x + feed(normed("feed_forward.", x))

    def positions(self, prefix, kind, dtype):
        d, n = self.width, self.context
        if kind == "learned":
            return self.weights[prefix + "position.weight"]
        p = torch.arange(n, dtype=torch.float64)[:, None]
        column = torch.arange(d)[None, :]
        angle = p / 10000.0 ** (2 * (column // 2) / d)
        return torch.where(column % 2 == 0, angle.sin(), angle.cos()).to(dtype)

    def windows(self, prefix, stage, stream):
        """A window of w rows a group, which ends where the group ends: PyTorch's pooling and convolution of stride k
        over the padded sequence."""
        k, w, d, method = stage["factor"], stage["window"], self.width, stage.get("method", "average")
        groups = -(-stream.x.shape[1] // k)
        positions = torch.arange(k - w, groups * k)
        if method == "max":
            x = F.max_pool1d(stream.at(positions, -math.inf).transpose(1, 2), w, k)
            x = x.masked_fill(x == -math.inf, 0)
        elif method == "average":
            x = F.avg_pool1d(stream.at(positions).transpose(1, 2), w, k)
        else:
            kernel = self.weights[prefix + "weight"].view(d, w, d).transpose(1, 2)  # [out, in, w]
            x = F.conv1d(stream.at(positions).transpose(1, 2), kernel, self.weights[prefix + "bias"], k)
        return Stream(x.transpose(1, 2), stream.factor * k)

    def transposed(self, prefix, k, w, y):
        """[B, M, d] -> [B, M k, d]: W_(r + k i) is in rows r d and columns (w / k - 1 - i) d; a bias a row r."""
        d, j = self.width, w // k
        blocks = self.weights[prefix + "weight"].view(k, d, j, d).flip(2)  # [r, out, i, in]
        kernel = blocks.permute(3, 1, 2, 0).reshape(d, d, w)
        made = F.conv_transpose1d(y.transpose(1, 2), kernel, stride=k).transpose(1, 2)[:, :y.shape[1] * k]
        return made + self.weights[prefix + "bias"].view(k, d).repeat(y.shape[1], 1)

    def shorten(self, prefix, stage, stream):
        k = stage["factor"]
        if "window" in stage:
            return self.windows(prefix, stage, stream)
        groups = -(-stream.x.shape[1] // k)
        null = stream.zero if stage.get("start") == "norm" else 0.0
        x = stream.at(torch.arange(groups * k), null).unflatten(1, (groups, k))  # [B, M, k, d]
        x = self.linear(prefix, x.flatten(2)) if stage.get("method") == "linear" else x.sum(2) / k
        return Stream(x, stream.factor * k)

    def upsample(self, prefix, stage, stream):
        k, y = stage["factor"], stream.rows()
        fine = -(-self.context // (stream.factor // k))
        if "window" in stage:
            y = self.transposed(prefix, k, stage["window"], y)
        elif stage.get("method") == "linear":
            y = self.linear(prefix, y).unflatten(2, (k, self.width)).flatten(1, 2)
        else:
            y = y.repeat_interleave(k, dim=1)
        return Stream(y[:, :fine], stream.factor // k)

    def top_down(self, stage, e):
        """Subramanian et al. (2020), section 3.1, on rows that exist alone: at factor k those g >= K / k - 1, K the
        coarsest. e [B, N, d] with positions. The two parts of a projection stand side by side, as the paper has them."""
        s, coarsest, n = self.settings(stage), stage["parts"][0]["factor"], e.shape[1]
        above = None
        for scale in stage["parts"]:
            k, first, rows = scale["factor"], coarsest // scale["factor"] - 1, []
            for g in range(first, -(-n // k)):
                group = F.pad(e[:, g * k:(g + 1) * k], (0, 0, 0, max(0, (g + 1) * k - n)))
                if k == 1:
                    row = group[:, 0]
                elif stage.get("shorten") == "linear":
                    row = self.linear(scale["shorten"], group.flatten(1))
                else:
                    row = group.sum(1) / k
                if above is not None:
                    coarse, coarse_first, r = above
                    row = self.join(scale, stage, row, coarse[:, (g + 1) // r - 1 - coarse_first], (g + 1) % r)
                rows.append(row)
            x = torch.stack(rows, 1)
            for name in scale["layers"]:
                x = self.layer(name, x, None, s, 1, 1, {})
            if "norm" in scale:
                x = self.norm(scale["norm"], x, s["norm"], s["epsilon"])
            index = stage["parts"].index(scale) + 1
            if index < len(stage["parts"]):
                above = x, first, k // stage["parts"][index]["factor"]
        return F.pad(x, (0, 0, coarsest - 1, 0))

    def join(self, scale, stage, row, coarse, place):
        """act([W | V] [row; z] + b), z the `place`-th fine row of a coarse one; all [B, d]."""
        if stage.get("upsample") == "linear":
            coarse = self.linear(scale["upsample"], coarse).unflatten(1, (-1, self.width))[:, place]
        weight = torch.cat((self.weights[scale["project"] + "weight"], self.weights[scale["project"] + "with.weight"]), 1)
        row = F.linear(torch.cat((row, coarse), 1), weight, self.weights.get(scale["project"] + "bias"))
        return activated(stage.get("projection_activation", "none"), row)

    def logits(self, tokens):
        """tokens [B, N] -> [B, N, V]; what else is minimized is in `others`."""
        streams, current, self.others, self.asked, self.learners, self.stream = {}, None, 0, {}, {}, 2
        for prefix, stage in self.stages:
            self.width = stage["reads"]
            source = streams[stage["from"]] if "from" in stage else current
            if "name_input" in stage:
                streams[stage["name_input"]] = source
            if stage["op"] == "boundaries":
                self.cut(prefix, stage, source, tokens)
                continue
            current = self.apply(prefix, stage, source, streams, tokens)
            if "to" in stage:
                streams[stage["to"]] = current
        return current

    def apply(self, prefix, stage, source, streams, tokens):
        op = stage["op"]
        if op == "embedding":
            table, kind, counts = self.weights[prefix + "token.weight"], stage.get("positions", "none"), None
            if "input" in stage:
                tokens, counts = self.given[stage["input"]]
            x = stage.get("scale", 1) * self.with_ngrams(prefix, stage, table[tokens], tokens)
            return Stream(x if kind == "none" else x + self.positions(prefix, kind, x.dtype)[:x.shape[1]], 1, counts=counts)
        if op == "shift" and stage.get("start") == "null":
            x, by = source.rows(), stage["by"]
            null = self.weights[prefix + "start.weight"].expand(x.shape[0], by, -1)
            return Stream(torch.cat((null, x), 1)[:, :x.shape[1]], source.factor)
        if op == "shift":
            return Stream(source.x, source.factor, source.shift + stage["by"], zero=source.zero)
        if stage.get("method") == "concatenate":
            return Stream(self.concatenated(prefix, stage, source.rows()), source.factor * stage["factor"])
        if stage.get("method") == "split":
            fine = source.factor // stage["factor"]
            return Stream(self.split(prefix, stage, source.rows(), -(-self.context // fine)), fine)
        if op == "project":
            return Stream(self.projected(prefix, stage, source, streams), source.factor, counts=source.counts)
        if op == "replace":
            return Stream(self.replaced(stage, source.rows(), streams[stage["with"]].rows()), source.factor)
        if op == "shorten" and stage.get("method") == "stack":
            groups, k = -(-source.x.shape[1] // stage["factor"]), stage["factor"]
            x = source.at(torch.arange(groups * k))
            return Stream(x.reshape(x.shape[0], groups, -1), source.factor * k)
        if op == "shorten":
            return self.shorten(prefix, stage, source)
        if op == "upsample":
            return self.upsample(prefix, stage, source)
        x = source.rows()
        if op == "pool" and source.counts is not None:
            return Stream(*self.word_means(x, self.bits[stage["segments"]], source.counts))
        if op == "pool":
            return Stream(self.pool_segments(stage, x), 1)
        if op == "fit":
            return Stream(self.fit(x, stage["width"], stage.get("at", 0)), source.factor)
        if op == "positions":
            rows = self.weights[prefix + "weight"][:x.shape[1]]
            return Stream(x + self.fit(rows, x.shape[2], x.shape[2] - rows.shape[1]), source.factor)
        if op == "clear":
            return Stream(x.masked_fill(self.cleared(stage, x)[..., None], 0), source.factor)
        if op == "recurrence":
            return Stream(self.recurrence(prefix, stage, x, source.counts), source.factor, counts=source.counts)
        if op == "umst":
            return Stream(self.umst(prefix, stage, x, self.bits[stage["segments"]], source.counts), 1, counts=source.counts)
        if op == "attend":
            return Stream(self.attend(prefix, stage, x, streams[stage["over"]].rows()), 1)
        if op == "spread":
            return Stream(self.spread_segments(stage, x), 1)
        if op == "top_down":
            return Stream(self.top_down(stage, x), source.factor)
        if op == "layer":
            over = streams[stage["over"]] if isinstance(stage.get("over"), str) else None
            if over and over.counts is not None:  # a row reads all of another axis
                stage = {**stage, "mask": "bidirectional"}
            x = self.layer(prefix, x, over.rows() if over else None, self.settings(stage), source.factor,
                           over.factor if over else source.factor, streams, (over or source).counts)
        elif op == "norm":
            kind = stage.get("norm", self.defaults["norm"])
            zero = self.norm(prefix, torch.zeros_like(x[0, 0]), kind, stage.get("epsilon", 1e-5))
            x = self.norm(prefix, x, kind, stage.get("epsilon", 1e-5))
            return Stream(x, source.factor, counts=source.counts, zero=zero)
        elif op == "graph_convolution":
            x = self.graph_convolution(stage.get("method", "normalized"), x, source.counts)
        elif op == "add":
            other = streams[stage["with"]]
            if other.factor != source.factor:
                raise ValueError("add joins streams of one scale")
            x = x + other.rows()
        elif op == "contrast":
            self.others = self.others + stage.get("factor", 1) * self.contrast(stage, x, streams[stage["candidates"]].rows(), source.factor)
            return source
        elif op in ("head", "loss"):
            table = self.embedding if stage.get("tied", False) else prefix + "weight"
            logits = F.linear(x, self.weights[table], self.weights.get(prefix + "bias"))
            self.ask(stage.get("name", "next"), logits)
            if op == "head":
                return logits
            losses, weights = self.losses_of(stage, logits)
            if not stage.get("frozen", False):
                self.others = self.others + stage.get("factor", 1) * losses[self.scored].sum() / weights[self.scored].sum()
            return source
        else:
            raise ValueError(f"no such op: {op}")
        return Stream(x, source.factor, counts=source.counts)

    @staticmethod
    def fit(x, width, at):
        """The columns of x from column `at` of `width` on, zeros before and after them."""
        return F.pad(x, (at, max(0, width - at - x.shape[-1])))[..., :width]

    def cleared(self, stage, x):
        """bool [B, N]: rows that have a bit, or start a block."""
        rows = torch.zeros(x.shape[:2], dtype=torch.bool)
        if "block" in stage:
            rows[:, stage.get("start", 0)::stage["block"]] = True
        for b, ends in enumerate(self.ends[stage["segments"]] if "segments" in stage else []):
            rows[b, ends] = True
        return rows

    @staticmethod
    def graph_convolution(method, x, counts):
        """P x, or the mean over a row and its neighbours, with the edges of all tests (Harness.cpp): of each of `counts` [B] rows
        but the last, with the row before it and with row 0."""
        p, q = torch.arange(x.shape[1])[:, None], torch.arange(x.shape[1])
        pairs = ((p - q).abs() == 1) | ((p == 0) != (q == 0))
        linked = pairs & (torch.maximum(p, q) + 1 < counts[:, None, None])
        sums = linked.to(x) + torch.eye(x.shape[1], dtype=x.dtype)
        degrees = sums.sum(2)
        if method == "mean":
            return sums / degrees[:, :, None] @ x
        return sums / (degrees[:, :, None] * degrees[:, None, :]).sqrt() @ x

    def contrast(self, stage, s, v, factor):
        """The mean of -log softmax over all rows v of the batch at row j + 1 for row j of s, over the pairs of rows j and j + 1 in
        the texts that have losses. A group is a row, from `first`, if all of its tokens are scored, a segment if it ends."""
        batch, rows = s.shape[:2]
        scored, lengths = batch // (stage.get("extra_batches", 0) + 1), self.scored.sum(1)
        counts = lengths // factor
        if stage["of"]:
            counts = torch.tensor([len(ends) for ends in self.ends[stage["of"]]])
        first = stage.get("first", 0)
        valid = (torch.arange(rows) >= first) & (torch.arange(rows) < counts[:, None])
        products = torch.einsum("bpd,cqd->bpcq", s, v).masked_fill(~valid, -math.inf).flatten(2)
        losses = -F.log_softmax(products, 2)
        pairs = [losses[b, j, b * rows + j + 1] for b in range(scored) for j in range(max(first - 1, 0), counts[b] - 1)]
        return sum(pairs, 0 * s.sum()) / max(len(pairs), 1)  # gradients are zeros without a pair

    def ask(self, loss, logits):
        """Stores the logits of a loss for boundaries; predictors that waited for them learn."""
        self.asked[loss] = logits
        for learn in self.learners.get(loss, []):
            learn()

    def losses_of(self, stage, logits):
        """[B, N] in nats, weighed, against `targets` or a named input's distributions, and the weights, 1 without an input of
        them. Evaluation knows neither of the head's."""
        named = {} if stage["op"] == "head" and not self.is_training else stage
        weights = self.numbers[named["weights"]].to(logits) if "weights" in named else torch.ones_like(logits[..., 0])
        if "target" in named:
            losses = -(self.numbers[named["target"]].to(logits) * F.log_softmax(logits, 2)).sum(2)
        else:
            losses = F.cross_entropy(logits.flatten(0, 1), self.targets.flatten(), reduction="none",
                                     label_smoothing=stage.get("label_smoothing", 0.0)).view(logits.shape[:2])
        return weights * losses, weights

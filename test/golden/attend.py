# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The stage `attend` of docs/segments.md, one row of one head at a time."""
import math

import torch
import torch.nn.functional as F


class Attend:
    """Attention of a Model between a scale and its segments; weights are the model's."""

    def declare_attend(self, prefix, stage):
        """Whether the stage is one of these, whose weights are then declared."""
        if stage["op"] != "attend":
            return False
        d, over = self.width, self.widths[stage["over"]]
        norm, bias, parts = stage.get("norm", self.defaults["norm"]), stage.get("bias", True), stage.get("parts", 1)
        heads = stage.get("heads", self.defaults.get("heads"))
        columns = heads * stage.get("head_size", (over if stage["asks"] else d) // heads)
        self.norm_weights(prefix + "own.norm.", norm, d)
        self.norm_weights(prefix + "over.norm.", norm, over)
        names = [f"query.{i}" for i in range(parts)] + ["key", "value"] if stage["asks"] else \
            ["query"] + [f"{name}.{i}" for i in range(parts) for name in ("key", "value")]
        for name in names:
            self.linear_weights(f"{prefix}{name}.", columns, d if name.startswith("query") else over, bias)
        if not stage["asks"]:
            self.linear_weights(prefix + "output.", d, columns, bias)
            return True
        for i in range(parts):
            self.weight(f"{prefix}output.{i}.weight", (d, columns), "matrix")
        if bias:
            self.weight(prefix + "output.bias", (d,), "bias")
        return True

    def attend(self, prefix, stage, x, over):
        """x [B, n, d] over the rows of `over`: each segment over its own, or each row over the parts of one."""
        norm, heads = stage.get("norm", self.defaults["norm"]), stage.get("heads", self.defaults.get("heads"))
        own, over = (self.norm(f"{prefix}{name}.norm.", rows, norm, 1e-5) for name, rows in (("own", x), ("over", over)))
        parts = range(stage.get("parts", 1))
        if not stage["asks"]:
            queries = self.linear(prefix + "query.", own)
            keys, values = ([self.linear(f"{prefix}{name}.{i}.", over) for i in parts] for name in ("key", "value"))
            rows = [[self.mixed(q, [k[b, m] for k in keys], [v[b, m] for v in values], heads) if m >= 0
                     else torch.zeros_like(q) for q, m in zip(queries[b], self.read_by(stage, b, x.shape[1]))]
                    for b in range(len(x))]
            return x + self.linear(prefix + "output.", torch.stack([torch.stack(row) for row in rows]))
        keys, values = self.linear(prefix + "key.", over), self.linear(prefix + "value.", over)
        for i in parts:
            queries = self.linear(f"{prefix}query.{i}.", own)
            rows = torch.zeros_like(queries)
            for b, m, first, end in self.segments_of(stage):
                rows[b, m] = self.mixed(queries[b, m], keys[b, first:end], values[b, first:end], heads)
            x = x + F.linear(rows, self.weights[f"{prefix}output.{i}.weight"])
        return x + self.weights[prefix + "output.bias"] if stage.get("bias", True) else x

    def read_by(self, stage, b, n):
        places = self.ends[stage["segments"]][b]
        return [sum(p <= t for p in places) - stage.get("by", 1) for t in range(n)]

    def segments_of(self, stage):
        """(b, m, first, end) of closed segments, as row m of a mean has them."""
        for b, places in enumerate(self.ends[stage["segments"]]):
            if self.begins[stage["segments"]]:  # row m is the segment before bit m; the segment of row 0 has no rows
                yield from ((b, m + 1, first, end) for m, (first, end) in enumerate(zip(places, places[1:])))
            else:
                yield from ((b, m, first, end + 1) for m, (first, end) in
                            enumerate(zip([0] + [t + 1 for t in places], places)))

    @staticmethod
    def mixed(query, keys, values, heads):
        """Column i H + h of a row is number i of head h."""
        result = torch.zeros_like(query)
        for h in range(heads):
            scores = torch.stack([query[h::heads] @ key[h::heads] for key in keys]) / math.sqrt(len(query) / heads)
            result[h::heads] = sum(p * value[h::heads] for p, value in zip(torch.softmax(scores, 0), values))
        return result

# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of docs/spec.md: masks, groups of heads, rotary positions, scores by distance. The whole score matrix is formed."""
import math

import torch
import torch.nn.functional as F


class Attention:
    """What layers of a Model compute by attention; weights and linear maps are the model's."""

    def rotate(self, x, rotary):
        """x [B, heads, N, D]: the pair (2i, 2i + 1) at position p turns by p * base^(-2i / D)."""
        positions, size = x.shape[2], x.shape[3]
        base = rotary.get("base", 10000) if isinstance(rotary, dict) else 10000
        turn = float(base) ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
        angle = torch.arange(positions, dtype=torch.float64)[:, None] * turn
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)

    @staticmethod
    def allowed(mask, queries, keys, f, g):
        """[P, Q] of bool: may position p (row), of f tokens, see position q (column), of g tokens."""
        p, q = torch.arange(queries)[:, None], torch.arange(keys)[None, :]
        if mask == "bidirectional":
            return torch.ones(queries, keys, dtype=torch.bool)
        if mask == "causal":
            return g * q <= f * p
        if mask == "complete":
            return g * (q + 1) <= f * (p + 1)
        if "block" in mask:
            block, start = mask["block"], mask.get("start", 0)
            return (q <= p) & ((q - start) // block == (p - start) // block)
        (a, b), p = mask["window"], f * p // g
        return (q > p - b) & (q <= p - a)

    def keys_of(self, name, group, x, s, streams):
        """(rows that keys and values are maps of, tokens in each) of a group of heads: another stream, or means of
        whole groups of x and of what the last one has, over k."""
        if "stream" in group:
            other = streams[group["stream"]]
            pre = s["placement"] == "pre"
            y = self.norm(name + "over.norm.", other.rows(), s["norm"], s["epsilon"]) if pre else other.rows()
            return y, other.factor
        k, n = group["factor"], x.shape[1]
        return torch.stack([x[:, g:g + k].sum(1) / k for g in range(0, n, k)], 1), s["factor"] * k

    @staticmethod
    def sees(mask, p, q, f, g):
        """Whether the query at p, of f tokens a row, reads key q, of g tokens a row."""
        t, last = f * p + f - 1, g * q + g - 1  # last tokens of the two
        if mask == "causal":
            return g * q <= f * p
        if mask == "complete":
            return last <= t
        if "tokens" in mask:
            a, b = mask["tokens"]
            return t - b < last <= t - a
        a, b = mask["window"]
        newest = f * p // g
        return newest - b < q <= newest - a

    def grouped_attention(self, name, x, s, streams):
        """One group of heads, one row, one head at a time. A row that reads nothing has zeros from those heads."""
        groups, size = self.groups_of(s), s["head_size"]
        heads, key_heads = s["heads"] // len(groups), s["key_value_heads"] // len(groups)
        mixed = []
        for index, group in enumerate(groups):
            part = f"{name}{index}."
            y, factor = self.keys_of(part, group, x, s, streams)
            moves = group.get("grid") == "moving" and group["factor"] > 1
            q = self.linear(part + "query.", x)
            k, v = (None, None) if moves else (self.linear(f"{part}{which}.", y) for which in ("key", "value"))
            mask = {"tokens": group["tokens"]} if "tokens" in group else group.get("mask", s["mask"])
            rows = []
            for p in range(x.shape[1]):
                if moves:  # keys of this row alone
                    means = self.moving_means(group, x, p, s["factor"])
                    seen = list(range(len(means)))
                    if means:
                        k, v = (self.linear(f"{part}{which}.", torch.stack(means, 1)) for which in ("key", "value"))
                else:
                    seen = [m for m in range(y.shape[1]) if self.sees(mask, p, m, s["factor"], factor)]
                row = []
                for head in range(heads):
                    own, other = head * size, head * key_heads // heads * size
                    if not seen:
                        row.append(torch.zeros(x.shape[0], size, dtype=x.dtype))
                        continue
                    scores = torch.einsum("bd,bmd->bm", q[:, p, own:own + size], k[:, seen, other:other + size])
                    weights = torch.softmax(scores / math.sqrt(size), -1)
                    row.append(torch.einsum("bm,bmd->bd", weights, v[:, seen, other:other + size]))
                rows.append(torch.cat(row, -1))
            mixed.append(torch.stack(rows, 1))
        whole = torch.cat([self.weights[f"{name}{index}.output.weight"] for index in range(len(groups))], 1)
        return F.linear(torch.cat(mixed, -1), whole, self.weights.get(name + "output.bias"))

    @staticmethod
    def moving_means(group, x, p, factor):
        """Key j of row p is the mean of x[p - a - k j - k + 1 .. p - a - k j], j < (b - a) / k, whole groups alone."""
        k, (a, b) = group["factor"], [-(-end // factor) for end in group["tokens"]]
        lasts = [p - a - k * j for j in range((b - a) // k)]
        return [x[:, last - k + 1:last + 1].mean(1) for last in lasts if last - k + 1 >= 0]

    def distance_scores(self, name, query, keys, s, f, g):
        """(q + v) . r for every pair by itself: r = W_r s of the distance in tokens. [B, heads, P, keys]."""
        p, q = torch.arange(query.shape[2])[:, None], torch.arange(keys)[None, :]
        tokens = f * (p + 1) - g * (q + 1) if s["mask"] == "complete" else f * p - g * q
        if s["distances"] == "rows":
            tokens = tokens // math.gcd(f, g)
        column = torch.arange(self.width)
        angle = tokens.double()[..., None] / 10000.0 ** (2 * (column // 2) / self.width)
        sinusoids = torch.where(column % 2 == 0, angle.sin(), angle.cos()).float().to(query.dtype)
        rows = F.linear(sinusoids, self.weights[name + "relative.weight"])
        rows = rows.view(query.shape[2], keys, s["heads"], s["head_size"])
        return torch.einsum("bhpc,pqhc->bhpq", query, rows)

    def distance_biases(self, name, queries, keys, f, g, ends):
        """[heads, P, keys]: the table's row of the distance in steps, the last one for all beyond."""
        table, step = self.weights[name + "relative.table"], math.gcd(f, g)
        p, q = torch.arange(queries)[:, None], torch.arange(keys)[None, :]
        steps = (f * (p + 1) - g * (q + 1) if ends else f * p - g * q) // step
        return table[steps.clamp(0, table.shape[0] - 1)].permute(2, 0, 1)

    def signed_rows(self, name, queries, keys):
        """[P, keys, columns]: the table's row of the signed distance p - q, clipped to -c .. c."""
        table = self.weights[name + "relative.table"]
        p, q, most = torch.arange(queries)[:, None], torch.arange(keys)[None, :], table.shape[0] // 2
        return table[(p - q).clamp(-most, most) + most]

    def attention(self, name, x, over, s, f, g, counts=None):
        """`counts` [B]: of the keys that each row has, where they are given."""
        rows, size, queries, keys = x.shape[0], s["head_size"], x.shape[1], over.shape[1]

        def heads(which, count, stream):
            return self.linear(f"{name}{which}.", stream).view(rows, -1, count, size).transpose(1, 2)

        q, k = heads("query", s["heads"], x), heads("key", s["key_value_heads"], over)
        v = heads("value", s["key_value_heads"], over)
        if s["rotary"]:
            q, k = self.rotate(q, s["rotary"]), self.rotate(k, s["rotary"])
        owner = torch.arange(s["heads"]) // (s["heads"] // s["key_value_heads"])
        by_distance, terms = 0, s["relative"] if isinstance(s["relative"], dict) else {}
        if "vectors" in terms:  # q (k + a), a for all heads
            by_distance = torch.einsum("bhpc,pqc->bhpq", q, self.signed_rows(name, queries, keys))
        if s["relative"] in ("xl", "xl_shared"):
            biases = self.biases[name + "relative."]
            u, v_bias = (self.weights[biases + part].view(1, s["heads"], 1, size)
                         for part in ("content.bias", "position.bias"))
            by_distance = self.distance_scores(name, q + v_bias, keys, s, f, g)
            q = q + u
        scores = (q @ k[:, owner].transpose(2, 3) + by_distance) / math.sqrt(size)
        if "signed_bias" in terms:
            scores = scores + self.signed_rows(name, queries, keys).permute(2, 0, 1)
        if "bias" in terms:
            scores = scores + self.distance_biases(name, queries, keys, f, g, s["mask"] == "complete")
        allowed = self.allowed(s["mask"], queries, keys, f, g)
        if counts is not None:  # [B, 1, P, keys]
            allowed = allowed & (torch.arange(keys) < counts[:, None])[:, None, None]
        if "within" in s:  # rows of one segment have as many ends before them
            bits = (self.bits[s["within"]] != 0).long()
            segment = bits.cumsum(1) - bits
            allowed = allowed & (segment[:, :, None] == segment[:, None, :])[:, None]
        # A fully masked row gets zero: masks its probabilities, since softmax would divide 0 by 0.
        scores = scores.masked_fill(~(allowed | ~allowed.any(-1, keepdim=True)), -math.inf)
        mixed = scores.softmax(-1).masked_fill(~allowed, 0) @ v[:, owner]
        return self.linear(name + "output.", mixed.transpose(1, 2).reshape(rows, queries, -1))

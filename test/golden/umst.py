# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The encoder of Li et al. (2022), from the equations of the paper and docs/spec.md, one line at a time with dense matrices.

A line has L rows and U words. G [L, U] is 1 where a row is in a word, n [U] the rows of words. Matrices of a line: P_w between rows
of a word, P_p between words, T [L, U] from words to rows. Settings: `intra`, `intra_edges`, `inter`, `graph_maps`, `vectors`,
`shared_maps`, `expand` and `mode` of the stage `umst`."""
import torch
import torch.nn.functional as F

from draws import philox


class Umst:
    """Weights of the stage `umst` of a Model and its evaluation."""

    def umst_parts(self, prefix, stage):
        """Names of the parts of each layer, then of the last norm, in the order of docs/spec.md."""
        number = iter(range(1 << 16))
        code = stage.get("mode") == "reference-code"

        def name():
            return f"{prefix}inside.{next(number)}."

        def graph(use, twice):
            """norm, P, then W, dropout and where it is `twice` P and dropout, then the sum."""
            if use == "none":
                return None
            part = {"norm": name(), "map": None}
            if use == "gat":
                part["map"] = name()
                name()
                name()
                return part
            name()
            if use == "convolution":
                part["map"] = name()
                for _ in range(3 if twice else 1):
                    name()
            name()
            return part

        layers = []
        for _ in range(stage["count"]):
            layer = {"intra": graph(stage.get("intra", "convolution"), True)}
            if stage.get("inter", "convolution") != "none":
                name()  # means
                layer["inter"] = graph(stage.get("inter", "convolution"), code)
            layers.append({**layer, "attention": name() + "attention.", "feed_forward": name() + "feed_forward."})
        return layers, name()

    def declare_umst(self, prefix, stage):
        if stage["op"] != "umst":
            return False
        d, s = self.width, self.settings(stage)
        layers, last = self.umst_parts(prefix, stage)
        for index, layer in enumerate(layers):
            for side in ("intra", "inter"):
                part = layer.get(side)
                if part:
                    self.norm_weights(part["norm"], s["norm"])
                if part and part["map"]:
                    share = {"layers": (prefix, side), "scales": (prefix, index)}.get(stage.get("graph_maps"))
                    owner = self.roles.setdefault(share, part["map"]) if share else part["map"]
                    is_gat = stage.get(side) == "gat"
                    kinds = ("weight", "source.weight", "target.weight") if is_gat else ("weight", "bias")
                    if owner != part["map"]:
                        self.weights.owners |= {part["map"] + kind: owner + kind for kind in kinds}
                    elif is_gat:
                        for kind, rows in zip(kinds, (d, 1, 1)):
                            self.linear_weights(owner + kind.removesuffix("weight"), rows, d, False)
                    else:
                        self.linear_weights(owner, d, d, s["bias"])
            self.declare_words(layer["attention"], stage, s, "inter" in layer)
            self.declare_feed_forward(layer["feed_forward"].removesuffix("feed_forward."), s)
        self.norm_weights(last, s["norm"])
        return True

    def declare_words(self, name, stage, s, has_words):
        d, columns = self.width, s["heads"] * s["head_size"]
        self.norm_weights(name + "norm.", s["norm"])
        if has_words:
            self.norm_weights(name + "words.norm.", s["norm"])
        sides = [""] + (["words."] if has_words and not stage.get("shared_maps", False) else [])
        for which in [f"{side}{which}." for side in sides for which in ("query", "key")] + ["value."]:
            self.linear_weights(name + which, columns, d, s["bias"])
        if "vectors" in stage:
            self.weight(name + "relative.table", (2 * stage["vectors"] + 1, s["head_size"]), "embedding")
        self.linear_weights(name + "output.", d, columns, s["bias"])

    def umst(self, prefix, stage, x, bits, counts):
        """x [B, N, d], bits [B, N], counts [B] -> [B, N, d]; zeros after a line's end, which no row reads."""
        lines = [self.umst_line(prefix, stage, x[b, :n], bits[b, :n]) if n > 0 else x[b, :0]
                 for b, n in enumerate(counts.tolist())]
        return torch.stack([F.pad(line, (0, 0, 0, x.shape[1] - len(line))) for line in lines])

    @staticmethod
    def word_means(x, bits, counts):
        """x [B, N, d], bits [B, N], counts [B] -> the means of words [B, N, d], then zeros; the factor 1, the shift 0 and the words of lines."""
        means = torch.zeros_like(x)
        words = torch.zeros_like(counts)
        for b, n in enumerate(counts.tolist()):
            last = [i + 1 for i in range(n) if bits[b, i] != 0 or i + 1 == n]
            words[b] = len(last)
            rows = [x[b, first:end].mean(0) for first, end in zip([0] + last, last)]
            means[b] = torch.stack(rows + [torch.zeros_like(x[b, 0])] * (x.shape[1] - len(rows)))
        return means, 1, 0, words

    def umst_line(self, prefix, stage, x, bits):
        s, layers, last = self.settings(stage), *self.umst_parts(prefix, stage)
        ends = bits != 0
        ends[-1] = True
        word = torch.cumsum(ends, 0) - ends.long()
        spread = F.one_hot(word).to(x)  # G
        n = spread.sum(0)
        code = stage.get("mode") == "reference-code"
        own = spread @ spread.T
        mean_rows = own / n[word, None]
        p_rows = (own + torch.eye(len(x), dtype=x.dtype)) / (n[word, None] + 1)
        if "intra_edges" in stage:
            p_rows, mean_rows = self.graph_matrices(self.drawn_edges(len(x)), x)
        p_words, mean_words = self.graph_matrices(self.word_edges(len(n)), x)
        if code:
            p_rows = mean_rows

        def normed(name, y):
            return self.norm(name, y, s["norm"], s["epsilon"])

        def attend(z, part, mean):
            """Graph attention (Velickovic et al., 2018): mean is above 0 between neighbours."""
            scores = self.linear(part["map"] + "source.", z) + self.linear(part["map"] + "target.", z).T
            return F.leaky_relu(scores, 0.2).masked_fill(mean == 0, -torch.inf).softmax(1) @ z

        def exchange(y, part, use, matrix, mean, twice):
            if part is None:
                return y
            if use == "gat":
                return y + F.relu(attend(self.linear(part["map"], normed(part["norm"], y)), part, mean))
            if use == "pooling":
                return y + mean @ normed(part["norm"], y)
            z = F.relu(self.linear(part["map"], matrix @ normed(part["norm"], y)))
            return y + (matrix @ z if twice else z)

        for layer in layers:
            rows = exchange(x, layer["intra"], stage.get("intra", "convolution"), p_rows, mean_rows, True)
            words = None
            if "inter" in layer:
                words = spread.T @ rows / (n.sqrt() if code else n)[:, None]
                words = exchange(words, layer["inter"], stage.get("inter", "convolution"), p_words, mean_words, code)
            name = layer["attention"]
            mixed = self.rectified(name, stage, s, normed(name + "norm.", rows),
                                   None if words is None else normed(name + "words.norm.", words), self.expansion(stage, spread))
            x = rows + self.linear(name + "output.", mixed)
            x = x + self.feed_forward(layer["feed_forward"], normed(layer["feed_forward"] + "norm.", x), s)
        return normed(last, x)

    @staticmethod
    def graph_matrices(edges, like):
        """D^-1/2 (A + I) D^-1/2 and D^-1 (A + I) for the edges A."""
        linked = edges.to(like) + torch.eye(len(edges), dtype=like.dtype)
        degrees = linked.sum(1)
        return linked / (degrees[:, None] * degrees).sqrt(), linked / degrees[:, None]

    @staticmethod
    def expansion(stage, spread):
        """T [L, U] of `expand`."""
        rows, words = spread.shape
        if stage.get("expand", "own") == "own":
            return spread
        if stage["expand"] == "nearest":
            return F.one_hot(torch.arange(rows) * words // rows, words).to(spread)
        eye = torch.eye(words, dtype=spread.dtype)
        return F.interpolate(eye[None], size=rows, mode="linear", align_corners=False)[0].T

    @staticmethod
    def drawn_edges(rows):
        """Half of all pairs of rows, by Philox of both and of the number 0, which all tests have."""
        return torch.tensor([[p != q and philox((min(p, q), max(p, q), 0, 0), (0, 0))[0] >= 2 ** 31 for q in range(rows)]
                             for p in range(rows)])

    @staticmethod
    def word_edges(words):
        """The edges of all tests (Harness.cpp): of each word but the last, with the word before it and with word 0."""
        p, q = torch.arange(words)[:, None], torch.arange(words)
        return (((p - q).abs() == 1) | ((p == 0) != (q == 0))) & (torch.maximum(p, q) + 1 < words)

    def rectified(self, name, stage, s, rows, words, spread):
        """1/2 (A1 + T A2 T^T) v for T = `spread`, the map [L, L] formed whole; A1 v without words."""
        values, mixed = self.linear(name + "value.", rows), []
        shared = "" if stage.get("shared_maps", False) else "words."
        for head in range(s["heads"]):
            columns = slice(head * s["head_size"], (head + 1) * s["head_size"])
            whole = self.weigh_keys(name, name, rows, columns, s)
            if words is not None:
                whole = (whole + spread @ self.weigh_keys(name + shared, name, words, columns, s) @ spread.T) / 2
            mixed.append(whole @ values[:, columns])
        return torch.cat(mixed, 1)

    def weigh_keys(self, maps, name, x, columns, s):
        """softmax over keys of q_i (k_j + a[clip(j - i)]) / sqrt(D) of a head. Row c of the table is of the distance i - j = c - C."""
        query, key = self.linear(maps + "query.", x)[:, columns], self.linear(maps + "key.", x)[:, columns]
        scores = query @ key.T
        table = self.weights.get(name + "relative.table")
        if table is not None:
            most, places = table.shape[0] // 2, torch.arange(len(x))
            apart = (places[:, None] - places).clamp(-most, most) + most
            scores = scores + (query[:, None, :] * table[apart]).sum(2)
        return (scores / s["head_size"] ** 0.5).softmax(1)

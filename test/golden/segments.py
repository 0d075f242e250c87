# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Segments of docs/segments.md: where they end, their rows, and the losses of what decides it."""
import torch
import torch.nn.functional as F


class Segments:
    """What stages of a Model compute between a scale and its segments; weights are the model's."""

    @staticmethod
    def document_ends(stage, tokens):
        """bool [B, N]: bits of tokens that end documents, or of those behind them where bits begin segments."""
        ends = tokens == stage.get("document_end", -1)
        return F.pad(ends, (1, 0))[:, :-1] if stage.get("at") == "start" else ends

    @staticmethod
    def segment_ends(stage, tokens):
        """Positions of bits: those of tokens of a rule, or every k-th."""
        begins = stage.get("at") == "start"

        def is_space_like(byte):
            return not (chr(byte).isalnum() and byte < 128) and not 128 <= byte < 192

        def is_end(position, row):
            if begins and position == 0:
                return True
            if stage["rule"] == "every":
                return (position + (0 if begins else 1)) % stage["factor"] == 0
            if stage["rule"] == "labels":  # bits set by tests
                return (sum(row) + position) % 2 == 1
            if stage["rule"] == "space_like":
                return is_space_like(row[position]) and not (position > 0 and is_space_like(row[position - 1]))
            return chr(row[position]) in " \t\n\v\f\r"

        forced = Segments.document_ends(stage, tokens).tolist()
        return [Segments.no_longer(stage, len(row), [t for t in range(len(row)) if is_end(t, row) or ends[t]])
                for row, ends in zip(tokens.tolist(), forced)]

    @staticmethod
    def no_longer(stage, rows, ends):
        """Also ends segments where t - w is a multiple of `longest`, w < t the last of `ends` before t, or -1."""
        if "longest" not in stage:
            return ends
        before = [max([-1] + [end for end in ends if end < t]) for t in range(rows)]
        return [t for t in range(rows) if t in ends or (t - before[t]) % stage["longest"] == 0]

    def target(self, number):
        """A number, or that of update `update`, from 1, of one that moves."""
        if not isinstance(number, dict):
            return number
        done, steps = min(self.update - 1, number["steps"]), number["steps"]
        share = done * number["jumps"] // steps / number["jumps"] if "jumps" in number else done / steps
        return number["from"] + (number["to"] - number["from"]) * share

    @staticmethod
    def spikes(stage, entropies):
        """bool [B, N]: rows above each of the rows before, of those that there are. Labels are of the token behind, or in
        the public code of the row's own, of which the first is 1."""
        bits = torch.ones_like(entropies, dtype=torch.bool)
        bits[:, 0] = stage.get("mode") == "reference-code"
        for by in range(1, stage["spike"] + 1):
            bits[:, by:] &= entropies[:, by:] > entropies[:, :-by]
        is_behind = "predictor" in stage and stage.get("mode") != "reference-code"
        return F.pad(bits, (1, 0))[:, :-1] if is_behind else bits

    def unsure(self, stage, tokens):
        """Places where the softmax of a loss has an entropy above the threshold, or one that rises by more, or a spike."""
        logs = F.log_softmax(self.asked[stage["loss"]], 2)
        asked = -(logs.exp() * logs).sum(2)
        if "spike" in stage:
            bits = self.spikes(stage, asked)
        else:
            asked = asked - F.pad(asked, (1, 0))[:, :-1] if "rise" in stage else asked
            bits = asked > stage.get("rise", stage.get("threshold"))
        bits |= self.document_ends(stage, tokens)
        bits[:, 0] |= stage.get("at") == "start"
        return [row.nonzero()[:, 0].tolist() for row in bits]

    def coded(self, stage, tokens, x):
        """Places where a row adds more than the threshold to the coding rate of the rows before it (Deng et al. 2026)."""
        scale, window, eye = stage.get("epsilon", 1) ** -2, stage.get("window", 4), torch.eye(x.shape[2], dtype=x.dtype)

        def rate(rows):
            return torch.logdet(eye + scale * rows.T @ rows) / 2

        bits = self.document_ends(stage, tokens)
        for b, t in torch.cartesian_prod(*map(torch.arange, x.shape[:2])).tolist():
            before = x[b, max(0, t - window):t]
            bits[b, t] |= bool(rate(x[b, max(0, t - window):t + 1]) - rate(before) > stage["threshold"])
        bits[:, 0] |= stage.get("at") == "start"
        return [row.nonzero()[:, 0].tolist() for row in bits]

    def route(self, prefix, stage, x, tokens):
        """Places where neighbours differ (Hwang et al. 2025), and the ratio loss of each text."""
        own, previous = self.linear(prefix + "own.", x), self.linear(prefix + "previous.", x)
        alike = F.cosine_similarity(own[:, 1:], previous[:, :-1], dim=2)
        p = torch.cat((torch.ones_like(alike[:, :1]), (1 - alike) / 2), 1).masked_fill(self.document_ends(stage, tokens), 1)
        bits = (p >= 0.5).to(p)
        share, mean, n = bits.mean(1), p.mean(1), self.target(stage["ratio"])
        loss = n / (n - 1) * ((n - 1) * share * mean + (1 - share) * (1 - mean))
        self.others = self.others + stage.get("weight", 0.03) * loss.mean()
        self.ends[stage["name"]] = [row.nonzero()[:, 0].tolist() for row in bits]
        self.chances[stage["name"]] = p

    def cut(self, prefix, stage, source, tokens):
        """Ends of a rule; or where a predictor's probability rounds to 1, with the rule as labels, if there is one."""
        self.begins[stage["name"]], self.lengths[stage["name"]] = stage.get("at") == "start", source.rows().shape[1]
        if stage.get("rule") == "bits":
            self.bits[stage["name"]] = self.given[stage["bits"]][0]
            return
        if "ratio" in stage:
            self.route(prefix, stage, source.rows(), tokens)
            return
        if "predictor" in stage:
            bits = self.predict(prefix, stage, source.rows(), tokens)
            ends = [row.nonzero()[:, 0].tolist() for row in bits]
            self.bits_before[stage["name"]] = bits.cumsum(1) - bits
        else:
            ends = self.ends_of_rule(stage, tokens, source.rows())
        if max(map(len, ends)) > stage.get("capacity", 1) * self.context:
            raise ValueError(f"expected segments that \"{stage['name']}\" has room for, found {max(map(len, ends))}")
        self.ends[stage["name"]] = ends

    def ends_of_rule(self, stage, tokens, x):
        if stage["rule"] == "coding_rate":
            return self.coded(stage, tokens, x.detach())
        return (self.unsure if stage["rule"] == "entropy" else self.segment_ends)(stage, tokens)

    def weigh(self, name, like):
        """[B, M, 1]: weights of rows in the mean of their segment m, 1 - (m - g), g the bits before the row. All are 1, but not
        their derivatives by drawn bits."""
        before = self.bits_before.get(name, torch.zeros_like(like[..., 0]))
        return (1 - (before.detach() - before))[..., None]

    def pool_segments(self, stage, x):
        """Rows of closed segments, then at least one row of zeros."""
        ends, weights = self.ends[stage["segments"]], self.weigh(stage["segments"], x)
        most = 1 + max(map(len, ends))
        rows = []

        def pool(b, start, end):
            group, own = x[b, start:end], weights[b, start:end]
            if stage.get("method") == "stack":
                return F.pad(group.flatten(), (0, self.stacked(stage, x.shape[2]) - group.numel()))
            return group.max(0).values if stage.get("method") == "max" else (own * group).sum(0) / own.sum()

        for b, places in enumerate(ends):
            starts = [0] + [t + 1 for t in places]
            if stage.get("method", "average") in ("last", "first"):  # "first" of segments that begin at bits
                own = [x[b, t] for t in places]
            elif self.begins[stage["segments"]]:  # row m is the segment before bit m
                own = [torch.zeros_like(x[b, 0])] + [pool(b, s, t) for s, t in zip(places, places[1:])]
            else:
                own = [pool(b, s, t + 1) for s, t in zip(starts, places)]
            own += [torch.zeros_like(own[0] if own else self.empty(stage, x[b, 0]))] * (most - len(own))
            rows.append(torch.stack(own))
        return torch.stack(rows)

    def stacked(self, stage, width):
        """Columns of the rows of a group, or of the longest segment, side by side."""
        if "factor" in stage:
            return stage["factor"] * width
        longest = [s.get("longest", s.get("factor")) for s in self.spec["stages"] if s.get("name") == stage["segments"]]
        return stage.get("width") or longest[0] * width

    def empty(self, stage, row):
        return row.new_zeros(self.stacked(stage, row.shape[0]) if stage.get("method") == "stack" else row.shape[0])

    def spread_segments(self, stage, y):
        """Row t reads row c(t) - by, c(t) the ends up to t; zeros where there is none."""
        result, method, n = [], stage.get("method", "repeat"), self.lengths[stage["segments"]]
        if method == "smooth":
            return self.smooth(stage, y, n)
        for b, places in enumerate(self.ends[stage["segments"]]):
            reads = [sum(p <= t for p in places) - stage.get("by", 1) for t in range(n)]
            if method == "scatter":
                reads = [m if t in places else -1 for t, m in enumerate(reads)]
            result.append(torch.stack([y[b, m] if m >= 0 else torch.zeros_like(y[b, 0]) for m in reads]))
        return torch.stack(result)

    def smooth(self, stage, y, n):
        """Row t reads the moving average up to its segment, times a gate of 1 with the derivative of p or 1 - p."""
        result = []
        for b, places in enumerate(self.ends[stage["segments"]]):
            p, z, rows = self.chances[stage["segments"]][b], torch.zeros_like(y[b, 0]), []
            for m, t in enumerate(places):
                chance = p[t].clamp(1e-4, 1 - 1e-4)
                z = chance * y[b, m] + (1 - chance) * z
                rows += [z] * ((places + [n])[m + 1] - t)
            sure = torch.where(p >= 0.5, p, 1 - p)
            result.append(torch.stack(rows) * (sure + (1 - sure).detach())[:, None])
        return torch.stack(result)

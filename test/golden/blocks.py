# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Blocks of docs/spec.md, one row at a time: `concatenate`, `split`, `replace`; and `project`."""
import math

import torch
import torch.nn.functional as F


def activated(kind, x):
    if kind == "gelu_tanh":
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
    return {"none": lambda y: y, "relu": F.relu, "gelu": F.gelu}[kind](x)


class Blocks:
    """What stages of a Model compute by blocks of rows; weights are the model's."""

    def declare_block(self, prefix, stage):
        """Whether the stage is one of blocks, whose weights are then declared."""
        d, method, made = self.width, stage.get("method"), stage.get("width", self.width)
        if method == "concatenate":
            self.linear_weights(prefix, made // stage["factor"], d, False)
        elif method == "split":
            self.linear_weights(prefix, made, d // stage["factor"], True)
        elif stage["op"] == "project":
            self.linear_weights(prefix, made, d, stage.get("bias", True))
            if "with" in stage:
                self.linear_weights(prefix + "with.", made, self.widths[stage["with"]], False)
        return method in ("concatenate", "split") or stage["op"] == "project"

    def projected(self, prefix, stage, x, streams):
        """act(W x + V z + b), each of its own width."""
        y = self.linear(prefix, x.rows())
        if "with" in stage:
            y = y + self.linear(prefix + "with.", streams[stage["with"]].rows())
        return activated(stage.get("activation", "none"), y)

    def with_ngrams(self, prefix, stage, x, tokens):
        """The mean of x and rows of tables: that of size n is ((x[t - n + 1] a + x[t - n + 2]) a + ...) + x[t] mod 2^31, then
        mod its rows, a = 2654435761; tokens before the first are 0, and so are those of documents that ended before."""
        terms = [x]
        for n in stage.get("ngrams", []):
            table, rows = self.weights[f"{prefix}ngram.{n}.weight"], []
            for text in tokens.tolist():
                sums = []
                for t in range(len(text)):
                    ends = [q + 1 for q in range(t) if text[q] == stage.get("document_end")]
                    past = ([0] * n + text[max([0] + ends):t + 1])[-n:]
                    sums.append(sum(token * 2654435761 ** (n - 1 - j) for j, token in enumerate(past)))
                rows.append([value % 2 ** 31 % table.shape[0] for value in sums])
            terms.append(table[torch.tensor(rows)])
        return sum(terms) / len(terms)

    @staticmethod
    def starts_block(stage, p):
        return p >= stage.get("start", 0) and (p - stage.get("start", 0)) % stage["block"] == 0

    def concatenated(self, prefix, stage, x):
        """Row m: W x[k m], ..., W x[k m + k - 1] side by side; a row that is not there is zeros."""
        k, table, rows = stage["factor"], self.weights[prefix + "weight"], []
        for m in range(-(-x.shape[1] // k)):
            group = [x[:, p] @ table.T if p < x.shape[1] else torch.zeros_like(x[:, 0] @ table.T)
                     for p in range(k * m, k * m + k)]
            rows.append(torch.cat(group, -1))
        return torch.stack(rows, 1)

    def split(self, prefix, stage, y, rows):
        """Row p: W times its own k-th part of the columns of row p div k, and a bias."""
        k, size = stage["factor"], y.shape[2] // stage["factor"]
        weight, bias = self.weights[prefix + "weight"], self.weights[prefix + "bias"]
        return torch.stack([F.linear(y[:, p // k, p % k * size:(p % k + 1) * size], weight, bias) for p in range(rows)], 1)

    def replaced(self, stage, x, other):
        return torch.stack([(other if self.starts_block(stage, p) else x)[:, p] for p in range(x.shape[1])], 1)

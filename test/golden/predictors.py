# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Predictors of docs/segments.md: bits that follow labels, and bits that are drawn, with their losses (Nawrot et al. 2023)."""
import math

import torch
import torch.nn.functional as F

from draws import uniform


class Predictors:
    """What `boundaries` stages of a Model with a `predictor` compute; weights and linear maps are the model's. `closest` is
    the logit nearest to 0 of those that were rounded to bits."""

    def predict(self, prefix, stage, x, tokens):
        """Bits [B, M] of rows x [B, M, d]. Minimizes the loss against the rule's bits, which a loss behind may give, or the prior's."""
        logits = self.linear(prefix + "out.", F.gelu(self.linear(prefix + "in.", x)))[..., 0]
        exist, forced = self.rows_of(stage, tokens, x.shape[1])
        free = exist & ~forced
        if "rule" not in stage:
            if stage.get("prior_logit", False):
                start = stage["prior"]["from"] if isinstance(stage["prior"], dict) else stage["prior"]
                logits = logits + math.log(start / (1 - start))
        drawn = "rule" not in stage and (self.is_training or stage.get("mode") == "reference-code")
        noise = self.noise(stage, logits) if drawn else 0
        self.closest = min([self.closest, *(logits + noise)[free].abs().tolist()])
        bits = (logits + noise > 0).to(logits)
        if drawn:  # rounded, with the derivative of the unrounded number
            soft = torch.sigmoid((logits + noise) / stage.get("temperature", 0.5))
            bits = bits + (soft - soft.detach())
        bits = torch.where(free, bits, forced.to(bits))
        def learn():
            loss = (self.against(stage, logits, self.ends_of_rule(stage, tokens, x)) if "rule" in stage
                    else self.prior(stage, bits, exist))
            self.others = self.others + stage.get("weight", 1) * loss

        if stage.get("rule") == "entropy" and stage["loss"] not in self.asked:
            self.learners.setdefault(stage["loss"], []).append(learn)
        else:
            learn()
        return bits

    def rows_of(self, stage, tokens, rows):
        """bool [B, rows], twice: rows of tokens, or of segments that have ended; and those of them that end documents."""
        over = self.cuts[stage["name"]]
        ended = self.document_ends(stage, tokens)
        if over is None:
            return torch.ones_like(ended), ended
        exist, forced = torch.zeros(2, tokens.shape[0], rows, dtype=torch.bool)
        for b, places in enumerate(self.ends[over]):
            exist[b, :len(places)] = True
            forced[b, :len(places)] = ended[b, places]
        return exist, forced

    def noise(self, stage, logits):
        """log(u / (1 - u)) of u from Philox by the seed, the draw's number in the program and the step: one a row. A text of
        tokens has room for the context, one of segments for their capacity, and for a row before them where one is read."""
        over, room = self.cuts[stage["name"]], self.context
        if over is not None:
            named = [s for _, s in self.stages if over in (s.get("segments"), s["op"] == "boundaries" and s["name"])]
            room = max(math.ceil(s.get("capacity", 1) * room) for s in named if s["op"] == "boundaries")
            room += any(s["op"] == "spread" and s.get("by", 1) == 0 for s in named)
        numbers = [[uniform(self.spec["seed"], self.stream, self.update, b * room + t) for t in range(logits.shape[1])]
                   for b in range(logits.shape[0])]
        self.stream += 1
        u = torch.tensor(numbers, dtype=logits.dtype)
        if u.min() < 1e-6 or u.max() > 1 - 1e-6:
            raise ValueError("expected draws that are not cut off at 1e-6 from 0 and 1, found one; take another seed")
        return torch.log(u / (1 - u))

    def prior(self, stage, bits, exist):
        """-log Binomial(k; L, a) / L of each text, k the bits of its L rows."""
        k, n, a = bits.sum(1), exist.sum(1).to(bits), self.target(stage["prior"])
        ways = torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
        return (-(ways + k * math.log(a) + (n - k) * math.log(1 - a)) / n.clamp(min=1)).mean()

    def against(self, stage, logits, ends):
        """Cross-entropy of labels; the public code takes the sigmoid of a probability once more."""
        labels = torch.zeros_like(logits)
        for b, places in enumerate(ends):
            labels[b, places] = 1
        logits = torch.sigmoid(logits) if stage.get("mode") == "reference-code" else logits
        return F.binary_cross_entropy(torch.sigmoid(logits), labels)

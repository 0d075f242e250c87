# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recurrences over rows: PyTorch's own LSTM, and the capped one by its formula, row by row."""
import torch
import torch.nn.functional as F


class Recurrences:
    def declare_recurrence(self, prefix, stage):
        width = stage.get("width", self.width)
        self.linear_weights(prefix + "input.", 4 * width, self.width, True)
        self.linear_weights(prefix + "state.", 4 * width, width, False)

    def recurrence(self, prefix, stage, x):
        w, bias, u = (self.weights[prefix + name] for name in ("input.weight", "input.bias", "state.weight"))
        h = c = x.new_zeros(x.shape[0], u.shape[1])
        resets = self.resets(stage, x)
        if stage.get("cell", "lstm") == "lstm" and not resets.any():
            weights = [w, u, bias, torch.zeros_like(bias)]
            return torch._VF.lstm(x, (h[None], c[None]), weights, True, 1, 0.0, False, False, True)[0]
        rows = []
        capped = stage.get("cell", "lstm") == "lstm_capped"
        for p in range(x.shape[1]):
            h, c = (torch.where(resets[:, p, None], 0.0, state) for state in (h, c))
            i, f, g, o = (F.linear(x[:, p], w, bias) + F.linear(h, u)).chunk(4, 1)
            f, i = torch.sigmoid(f), torch.sigmoid(i)
            c = f * c + (torch.minimum(i, 1 - f) if capped else i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            rows.append(h)
        return torch.stack(rows, 1)

    def resets(self, stage, x):
        """[B, N]: rows before which the state is zeros, the first row apart."""
        resets = torch.zeros(x.shape[:2], dtype=torch.bool)
        if "every" in stage:
            resets[:, stage.get("at", 0)::stage["every"]] = True
        if "segments" in stage:
            after = int(stage.get("reset", "first") == "first" and not self.begins.get(stage["segments"]))
            for row, ends in enumerate(self.ends[stage["segments"]]):
                resets[row, [end + after for end in ends if end + after < x.shape[1]]] = True
        return resets

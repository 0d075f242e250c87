# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recurrences over rows: PyTorch's own LSTM, and the capped one by its formula, row by row."""
import torch
import torch.nn.functional as F


class Recurrences:
    def declare_recurrence(self, prefix, stage):
        width = stage.get("width", self.width)
        self.linear_weights(prefix + "input.", 4 * width, self.width, True)
        self.linear_weights(prefix + "state.", 4 * width, width, False)
        if stage.get("start", "zeros") == "null":
            self.weight(prefix + "start.hidden.weight", (width, 1), "bias")
            self.weight(prefix + "start.cell.weight", (width, 1), "bias")

    def recurrence(self, prefix, stage, x, counts):
        w, bias, u = (self.weights[prefix + name] for name in ("input.weight", "input.bias", "state.weight"))
        h = c = x.new_zeros(x.shape[0], u.shape[1])
        resets = self.resets(stage, x)
        if stage.get("direction", "forward") == "backward":  # from the last of `counts` rows, text by text
            parts = [self.run_cell(stage, row[None, :n].flip(1), bits[None, :n].flip(1), h[:1], c[:1], w, bias, u)
                     for row, n, bits in zip(x, counts, resets) if n > 0]
            parts = iter([part[0].flip(0) for part in parts])
            texts = [next(parts) if n > 0 else x.new_zeros(0, u.shape[1]) for n in counts]
            return torch.stack([F.pad(text, (0, 0, 0, x.shape[1] - len(text))) for text in texts])
        if stage.get("start", "zeros") == "null":
            h, c = (self.weights[prefix + f"start.{part}.weight"][:, 0].expand_as(h) for part in ("hidden", "cell"))
        elif stage.get("cell", "lstm") == "lstm" and not resets.any():
            weights = [w, u, bias, torch.zeros_like(bias)]
            return torch._VF.lstm(x, (h[None], c[None]), weights, True, 1, 0.0, False, False, True)[0]
        return self.run_cell(stage, x, resets, h, c, w, bias, u)

    @staticmethod
    def run_cell(stage, x, resets, first_h, first_c, w, bias, u):
        """[B, N, H]: h of each row, from the first states [B, H], which rows at `resets` [B, N] begin with too."""
        rows, h, c = [], first_h, first_c
        capped = stage.get("cell", "lstm") == "lstm_capped"
        for p in range(x.shape[1]):
            h, c = (torch.where(resets[:, p, None], first, state) for first, state in ((first_h, h), (first_c, c)))
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

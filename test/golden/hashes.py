# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LSH attention of docs/spec.md, from Kitaev et al. (2020), section 2, one row at a time: each hash attends by
itself, and equation 6 adds them up by their normalizers z."""
import math

import numpy as np
import torch

from draws import WORD, uniform


def rotations(name, seed, rows, columns):
    """[rows, columns] of normal numbers, rounded to bf16: element i is by Box and Muller of draws 2 i and 2 i + 1 of the
    stream that the name's FNV-1a is."""
    stream = 2166136261
    for letter in name.encode():
        stream = (stream ^ letter) * 16777619 % WORD

    def draw(element):
        return uniform(seed, stream, 0, element)

    numbers = [math.sqrt(-2 * math.log(1 - draw(2 * i))) * math.cos(2 * math.pi * draw(2 * i + 1))
               for i in range(rows * columns)]
    # Once to bf16, as rounding to f32 first could tie.
    parts = [math.frexp(number) for number in numbers]
    return np.array([math.ldexp(round(m * 256), e - 8) for m, e in parts]).reshape(rows, columns)


class Hashes:
    """What layers of a Model with `lsh` compute; weights and linear maps are the model's."""

    def declare_hashed(self, prefix, s):
        for which in ("query_key", "value"):
            self.linear_weights(f"{prefix}attention.{which}.", s["heads"] * s["head_size"], self.width, s["bias"])
        self.linear_weights(prefix + "attention.output.", self.width, s["heads"] * s["head_size"], s["bias"])

    def hashed_attention(self, name, x, s):
        lsh, seed = s["lsh"], self.spec.get("seed", 0)
        hashes, half = lsh.get("hashes", 2), lsh["buckets"] // 2
        rows, values = self.linear(name + "query_key.", x), self.linear(name + "value.", x)
        table = rotations(name + "rotations", seed, hashes * half, rows.shape[2])
        turned = rows.detach().double() @ torch.tensor(table).T
        mixed = torch.stack([torch.stack([self.hashed_row(rows[b], values[b], p, s, turned[b].view(-1, hashes, half))
                                          for p in range(x.shape[1])]) for b in range(x.shape[0])])
        return self.linear(name + "output.", mixed)

    @staticmethod
    def found(buckets, p, chunk, causal):
        """Earlier rows that one hash lets row p read. As published all rows are sorted by bucket, and the list is cut;
        the causal variant cuts the list of the bucket's rows up to p."""
        if causal:
            listed = [q for q in range(p + 1) if buckets[q] == buckets[p]]
        else:
            listed = sorted(range(len(buckets)), key=lambda q: (buckets[q], q))
        own = listed.index(p) // chunk
        return sorted(q for q in listed[max(0, own - 1) * chunk:(own + 1) * chunk] if q < p)

    def hashed_row(self, rows, values, p, s, turned):
        """Row p of one text: per head, sum over hashes r of exp(z_r - z) o_r."""
        lsh, size, heads = s["lsh"], s["head_size"], []
        buckets = torch.cat((turned, -turned), -1).argmax(-1)  # [N, hashes]
        found = [self.found(buckets[:, r].tolist(), p, lsh.get("chunk", 128), lsh.get("causal", True))
                 for r in range(buckets.shape[1])]
        found = [keys for keys in found if keys]
        if not found:  # itself alone
            return values[p]
        for head in range(s["heads"]):
            own = slice(head * size, (head + 1) * size)
            normalizers, outputs = [], []
            for keys in found:
                scores = rows[keys, own] @ rows[p, own] / math.sqrt(size)
                normalizers.append(torch.logsumexp(scores, 0))
                outputs.append(torch.softmax(scores, 0) @ values[keys, own])
            z = torch.stack(normalizers)
            heads.append(torch.exp(z - torch.logsumexp(z, 0)) @ torch.stack(outputs))
        return torch.cat(heads)

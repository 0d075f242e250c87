# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's few functions that a model of model.py is made of."""
import torch
import torch.nn.functional as F


class Ops:
    linear = staticmethod(F.linear)
    tables = {}

    @staticmethod
    def norm(x, gain, bias):
        return F.layer_norm(x, (x.shape[-1],), gain, bias, 1e-5)

    @staticmethod
    def attention(q, k, v):
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)

    @staticmethod
    def gelu(x):
        return F.gelu(x, approximate="tanh")

    @staticmethod
    def pad_front(x, count):
        return F.pad(x, (0, 0, count, 0))

    @staticmethod
    def repeat(x, count):
        return x.repeat_interleave(count, dim=1)

    @staticmethod
    def stack_last(even, odd):
        return torch.stack((even, odd), -1)

    @classmethod
    def turns(cls, length, size):
        return cls.tables[length, size]

# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A training step in JAX: one jitted function whose arguments are donated."""
import functools

import jax
import jax.numpy as jnp

from model import serve, turns


class Ops:
    turns = staticmethod(turns)

    @staticmethod
    def linear(x, weight, bias):
        y = x @ weight.T
        return y if bias is None else y + bias

    @staticmethod
    def norm(x, gain, bias):
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5) * gain + bias

    @staticmethod
    def attention(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)

    @staticmethod
    def gelu(x):
        return jax.nn.gelu(x, approximate=True)

    @staticmethod
    def pad_front(x, count):
        return jnp.pad(x, ((0, 0), (count, 0), (0, 0)))

    @staticmethod
    def repeat(x, count):
        return jnp.repeat(x, count, axis=1)

    @staticmethod
    def stack_last(even, odd):
        return jnp.stack((even, odd), -1)


class Trainer:
    def __init__(self, model, checkpoint, threads):
        self.version = jax.__version__
        self.state = jax.tree.map(jnp.asarray, tuple(checkpoint))

        def loss(weights, tokens):
            logits = jax.nn.log_softmax(model.logits(Ops, weights, tokens[:, :-1]))
            return -jnp.take_along_axis(logits, tokens[:, 1:, None], -1).mean()

        beta1, beta2 = model.training["betas"]
        epsilon, decay, clip = (model.training[key] for key in ("epsilon", "weight_decay", "clip"))

        @functools.partial(jax.jit, donate_argnums=0)
        def step(state, tokens, number, rate):
            weights, first, second = state
            value, gradients = jax.value_and_grad(loss)(weights, tokens)
            norm = jnp.sqrt(sum(jnp.square(g).sum() for g in gradients.values()))
            scale = jnp.minimum(1.0, clip / norm)
            new = ({}, {}, {})
            for name, p in weights.items():
                g = gradients[name] * scale
                m = beta1 * first[name] + (1 - beta1) * g
                v = beta2 * second[name] + (1 - beta2) * g * g
                p = p * (1 - rate * decay) if model.decayed(name) else p
                p = p - rate * (m / (1 - beta1 ** number)) / (jnp.sqrt(v / (1 - beta2 ** number)) + epsilon)
                new[0][name], new[1][name], new[2][name] = p, m, v
            return new, value

        self.run = step

    def step(self, tokens, number, rate):
        self.state, loss = self.run(self.state, jnp.asarray(tokens), jnp.float32(number), jnp.float32(rate))
        jax.block_until_ready(self.state)
        return loss


serve(Trainer)

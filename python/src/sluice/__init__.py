# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles, trains and runs multi-scale autoregressive transformers. docs/python.md describes the package."""

import json
import os
import threading
from typing import NamedTuple, Optional

import numpy as np

from . import _sluice
from ._errors import Error, InputError, InternalError, JobError, LeakError, Witness, reject

__all__ = ["Error", "Evaluation", "Generator", "InputError", "InternalError", "JobError", "LeakError", "Model", "Step", "Verdict",
           "Witness", "check", "compile", "load"]
__version__ = _sluice.version()


class Verdict(NamedTuple):
    """Result of `check`. `witness` is None for a proof, and where neither a proof nor a leak was found."""

    proved: bool
    witness: Optional[Witness]
    text: str


class Step(NamedTuple):
    """Loss of a training step in nats a token, and the norm of its gradient before clipping."""

    loss: float
    gradient_norm: float


class Evaluation(NamedTuple):
    """Nats of all scored tokens, their number, and the windows that scored them."""

    nats: float
    tokens: int
    window: int
    stride: int


def _spec(spec):
    """Returns the path and the text of a spec: a dict, JSON text, or a path."""
    if isinstance(spec, dict):
        return "spec.json", json.dumps(spec, indent=1)
    if isinstance(spec, str) and spec.lstrip().startswith("{"):
        return "spec.json", spec
    if isinstance(spec, (str, os.PathLike)):
        return os.fspath(spec), None
    reject("spec", "a dict, JSON text or a path", type(spec).__name__, "give one of them")


def _tokens(value, dimensions, name="tokens"):
    """Returns token ids as a contiguous array of int32: a copy, unless they have this form."""
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        value = np.frombuffer(value, np.uint8)
    elif not isinstance(value, np.ndarray):
        if hasattr(value, "__dlpack__"):
            try:
                value = np.from_dlpack(value)
            except Exception as error:  # another device, or a type without a counterpart
                reject(name, "an array in the CPU's memory", f"{type(value).__name__} ({error})", "copy it to the CPU")
        else:
            try:
                value = np.asarray(value if hasattr(value, "__len__") else list(value))
            except (TypeError, ValueError, OverflowError) as error:
                reject(name, "integers of an array or a sequence", f"{type(value).__name__} ({error})", "give rows of one length")
            if value.size == 0:
                value = value.astype(np.int32)
    if value.dtype.kind not in "iu":
        reject(name, "integers", f"numbers of type {value.dtype}", "convert them to int32")
    if value.ndim != dimensions:
        reject(name, f"{dimensions} dimension{'s' * (dimensions > 1)}", f"shape {list(value.shape)}", "reshape them")
    if value.dtype != np.int32 and value.size > 0:
        for number in (int(value.min()), int(value.max())):
            if not -2**31 <= number < 2**31:
                reject(name, "token ids below the vocabulary", str(number), "encode the text for this model")
    return np.ascontiguousarray(value, np.int32)


def check(spec):
    """Proves that no prediction of a spec reads its target or a later token.

    Returns a Verdict, also for a leak. Raises InputError for a spec that is not valid.
    """
    try:
        return Verdict(True, None, _sluice.check(*_spec(spec)))
    except LeakError as error:
        return Verdict(False, error.witness, error.message)


def compile(spec, path, targets=None, precision=None, memory_budget=0, allow_leak=False):
    """Compiles a spec to the artifact `path`.

    `targets` is a list such as ["cpu-avx2", "sm_80"]; None: this machine's CPU. Raises LeakError for a spec that is not proved,
    unless `allow_leak`.
    """
    if targets is not None and not isinstance(targets, str):
        targets = ",".join(targets)
    _sluice.compile(*_spec(spec), os.fspath(path), targets, precision, memory_budget, allow_leak)


def load(path, device="cpu", threads=0, target=None):
    """Loads an artifact. Its weights are zeros until `initialize` or `load_weights`."""
    return Model(path, device, threads, target)


class Generator:
    """Iterates over the tokens of a continuation. Keeps its model; `close` frees its row of the model."""

    def __init__(self, handle):
        self._handle = handle
        self._lock = threading.Lock()  # `close` may be called on another thread

    def __iter__(self):
        return self

    def __next__(self):
        with self._lock:
            token = self._handle.next()
        if token is None:
            raise StopIteration
        return token

    def close(self):
        with self._lock:
            self._handle.close()


class Model:
    """A loaded artifact with its weights. Calls from several threads wait for one another."""

    def __init__(self, path, device="cpu", threads=0, target=None):
        self._handle = _sluice.Model(os.fspath(path), device, target, threads)
        self._device = device
        self._lock = threading.RLock()  # of calls that are followed by reads of their results
        facts = self._handle.facts()
        self.vocabulary, self.context, self.batch_rows = facts.vocabulary, facts.context, facts.batch_rows
        self.parameter_count, self.is_proved = facts.parameters, facts.is_proved
        self._tensors = facts.tensors

    @property
    def step(self):
        """Number of finished training steps since `initialize`."""
        return self._handle.facts().step

    def initialize(self, seed=0):
        """Draws initial weights, as `sluice train --seed` does."""
        self._handle.initialize(seed)

    def load_weights(self, path):
        """Loads a safetensors file, a checkpoint or a run."""
        self._handle.load_weights(os.fspath(path))

    def save_weights(self, path):
        """Writes a safetensors file."""
        self._handle.save_weights(os.fspath(path))

    def parameters(self):
        """Returns the weights by name: arrays of the model's own memory (zero copy), which may be written between calls.

        On devices other than the CPU, returns copies.
        """
        named = dict(self._handle.tensor(index, False) for index in range(self._tensors))
        return named if self._device == "cpu" else {name: array.copy() for name, array in named.items()}

    def train_step(self, tokens):
        """Performs a training step on [batch_rows, context + 1] token ids. Returns a Step."""
        return Step(*self._handle.step(_tokens(tokens, 2), True))

    def gradients(self, tokens):
        """Returns the gradients of the next training step by name, as copies, without changing the weights."""
        batch = _tokens(tokens, 2)
        with self._lock:
            self._handle.step(batch, False)
            return {name: array.copy() for name, array in (self._handle.tensor(i, True) for i in range(self._tensors))}

    def train(self, source, steps=None):
        """Trains on the token arrays of an iterable, and yields the Step of each step.

        Arrays of one dimension are texts, which are joined and cut into rows of context + 1 tokens that share one token; arrays of
        two dimensions are such rows. Rows that do not fill a step are left out at the end.
        """
        if steps is not None and steps < 0:
            reject("steps", "a number of at least 0", str(steps), "None takes the whole source")
        batches = self._batches(source)
        done = 0
        while steps is None or done < steps:
            batch = next(batches, None)
            if batch is None:
                return
            yield self.train_step(batch)
            done += 1

    def _batches(self, source):
        columns = self.context + 1
        rest, rows = np.zeros(0, np.int32), []
        for array in source:
            given = array if hasattr(array, "ndim") and array.ndim == 2 else None
            if given is not None:
                ids = _tokens(given, 2)
                if ids.shape[1] != columns:
                    reject("source", f"rows of {columns} tokens", f"shape {list(ids.shape)}", "cut the text into such rows")
                rows.extend(ids)
            else:
                rest = np.concatenate([rest, _tokens(array, 1)])
                count = max(0, (len(rest) - 1) // self.context)
                rows.extend(rest[i * self.context : i * self.context + columns] for i in range(count))
                rest = rest[count * self.context :]
            while len(rows) >= self.batch_rows:
                yield np.stack(rows[: self.batch_rows])
                del rows[: self.batch_rows]

    def score(self, tokens, window=0, stride=0):
        """Scores a text with overlapping windows, as `sluice eval` does. Returns an Evaluation."""
        return Evaluation(*self._handle.evaluate(_tokens(tokens, 1), window, stride))

    def evaluate(self, tokens, window=0, stride=0):
        """Returns the mean nats of a scored token."""
        result = self.score(tokens, window, stride)
        return result.nats / result.tokens

    def logits(self, tokens):
        """Returns the logits after each token, [tokens, vocabulary], as `sluice logits` does."""
        ids = _tokens(tokens, 1)
        rows = np.empty((len(ids), self.vocabulary), np.float32)
        self._handle.logits(ids, rows)
        return rows

    def activations(self, tokens, names):
        """Returns the rows of streams by name: of a stage's "to", or of a stage such as "stages.1.inside.2"."""
        ids = _tokens(tokens, 1)
        found = {}
        for name in [names] if isinstance(names, str) else names:
            found[name] = np.empty(self._handle.activation_shape(name, len(ids)), np.float32)
            self._handle.activations(name, ids, found[name])
        return found

    def generate(self, prompt, tokens=256, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, seed=0, sample=0,
                 cached=True):
        """Returns an iterator over the token ids that continue a prompt, as `sluice generate` draws them.

        After a prompt of text or bytes, only ids of bytes are drawn.
        """
        ids = 256 if isinstance(prompt, (str, bytes)) else 0
        for name, value, least in (("tokens", tokens, 0), ("seed", seed, 0), ("sample", sample, 0)):
            if not isinstance(value, (int, np.integer)) or value < least or value >= 2**63:
                reject(name, f"an integer of at least {least}", repr(value), "give another")
        for name, value in (("top_p", top_p), ("repetition_penalty", repetition_penalty)):
            if value == 0:
                reject(name, "a number above 0", repr(value), "1 turns it off")
        handle = _sluice.Generator()
        start = _tokens(prompt, 1, "prompt")
        if tokens > 0:
            self._handle.generate(handle, start, tokens, temperature, top_k, top_p, min_p, repetition_penalty, seed, sample, ids, cached)
        return Generator(handle)

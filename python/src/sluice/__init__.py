# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles, trains and runs multi-scale autoregressive transformers. docs/python.md describes the package."""

from typing import Dict, List, NamedTuple, Optional

import numpy as np

from . import _arguments, _sluice
from ._arguments import checked
from ._data import Stream, open_source
from ._lines import Lines, are_texts
from ._parts import KINDS, Data, is_file
from ._errors import Error, InputError, InternalError, JobError, LeakError, Witness, reject

__all__ = ["Error", "Evaluation", "Found", "Generator", "InputError", "InternalError", "JobError", "LeakError", "Model", "Step", "Verdict",
           "Witness", "check", "compile", "load"]
__version__ = _sluice.version()


class Verdict(NamedTuple):
    """Result of `check`. `witness` is None for a proof, and where neither a proof nor a leak was found; `remedy` is empty for a proof."""

    proved: bool
    witness: Optional[Witness]
    text: str
    remedy: str = ""


class Step(NamedTuple):
    """Loss of a training step in nats a token, and the norm of its gradient before clipping."""

    loss: float
    gradient_norm: float


class Evaluation(NamedTuple):
    """Nats of all scored tokens, their number, the windows that scored them, and the mean nats of each of several losses by name."""

    nats: float
    tokens: int
    window: int
    stride: int
    losses: Dict[str, float]


class Found(NamedTuple):
    """The text that `Model.search` found: its ids without the end, its score, and whether the end follows."""

    tokens: List[int]
    score: float
    finished: bool


@checked
def check(spec):
    """Proves that no prediction of a spec reads its target or a later token.

    Returns a Verdict, also for a leak. Raises InputError for a spec that is not valid.
    """
    try:
        return Verdict(True, None, _sluice.check(*_arguments.spec(spec)))
    except LeakError as error:
        return Verdict(False, error.witness, error.message, error.remedy)


@checked
def compile(spec, path, targets=None, precision=None, memory_budget=0, allow_leak=False, generation_rows=16, weights=None):
    """Compiles a spec to the artifact `path`.

    `targets` is a list such as ["cpu-avx2", "sm_80"]; None: this machine's CPU. `precision` is "f32" or "bf16"; None: the spec's.
    `memory_budget` is a number of bytes; 0: no limit. `generation_rows` is the number of texts, or of hypotheses of a search, that
    the artifact computes at once. `weights` is "bf16", "int8" or "int4", the type in which evaluation and generation read weight matrices;
    None: as in training. Raises LeakError for a spec that is not proved, unless `allow_leak`.
    """
    _sluice.compile(*_arguments.spec(spec), _arguments.path("path", path), _arguments.targets(targets),
                    _arguments.text("precision", precision, "bf16", optional=True),
                    _arguments.integer("memory_budget", memory_budget, 0), _arguments.flag("allow_leak", allow_leak),
                    _arguments.integer("generation_rows", generation_rows, 1, 64),
                    _arguments.text("weights", weights, "int8", optional=True))


@checked
def load(path, device="cpu", threads=0, target=None):
    """Loads an artifact. It has no weights until `initialize`, `load_weights` or `load_checkpoint`."""
    return Model(path, device, threads, target)


class Generator:
    """Iterates over the tokens of a continuation. Keeps its model; `close` frees its row of the model."""

    def __init__(self, handle):
        self._handle = handle

    def __iter__(self):
        return self

    def __next__(self):
        token = self._handle.next()
        if token is None:
            raise StopIteration
        return token

    def close(self):
        """Frees the row. A call of `next` on another thread ends first; later ones raise StopIteration."""
        self._handle.close()


class Model:
    """A loaded artifact with its weights. Calls from several threads wait for one another.

    A signal handler that runs within a call of the same model raises InputError if it uses the model, except for `step`.
    """

    @checked
    def __init__(self, path, device="cpu", threads=0, target=None):
        path = _arguments.path("path", path)
        device = _arguments.text("device", device, "cpu")
        target = _arguments.text("target", target, "cpu-avx2", optional=True)
        self._handle = _sluice.Model(path, device, target, _arguments.integer("threads", threads, 0, 1024))
        self._device = device
        facts = self._handle.facts()
        self.vocabulary, self.context, self.batch_rows = facts.vocabulary, facts.context, facts.batch_rows
        self.parameter_count, self.is_proved = facts.parameters, facts.is_proved
        inputs = self._handle.inputs()
        self.inputs = {name: KINDS[kind] for name, kind, _ in inputs}
        self._widths = {name: width for name, _, width in inputs}
        self._shapes = [self._handle.describe(index) for index in range(facts.tensors)]

    @property
    def step(self):
        """Number of finished training steps since `initialize`, `load_weights` or the beginning of a loaded run."""
        return self._handle.facts().step

    @checked
    def initialize(self, seed=0):
        """Draws initial weights, as `sluice train --seed` does, and begins at step 0 with a new optimizer."""
        self._handle.initialize(_arguments.integer("seed", seed, 0))

    @checked
    def load_weights(self, path):
        """Loads a safetensors file, or the weights of a checkpoint or a run, and begins at step 0 with a new optimizer."""
        self._handle.load_weights(_arguments.path("path", path))

    @checked
    def load_checkpoint(self, run, step=None):
        """Loads a checkpoint of a run: weights, optimizer, seed and number of steps. `step` None: the latest one."""
        step = -1 if step is None else _arguments.integer("step", step, 0)
        self._handle.load_checkpoint(_arguments.path("run", run), step)

    @checked
    def save_weights(self, path):
        """Writes a safetensors file."""
        self._handle.save_weights(_arguments.path("path", path))

    def parameters(self):
        """Returns the weights by name: arrays of the model's own memory (zero copy), which may be written between calls.

        While such an array exists, each call looks for writes. On devices other than the CPU, returns copies.
        """
        named = dict(self._handle.parameter(index) for index in range(len(self._shapes)))
        return named if self._device == "cpu" else {name: array.copy() for name, array in named.items()}

    def _takes_lines(self, inputs):
        """Checks for inputs of lines: those of the model, or wrong ones of a model without inputs."""
        return inputs is not None and not {"numbers", "labels"} & set(self.inputs.values())

    def _open_step(self, tokens, inputs, line_end, labels, images, tokenizer):
        """Returns the Data or the Lines of a step, or an array of tokens."""
        has_files = is_file(tokens) or any(map(is_file, inputs.values() if isinstance(inputs, dict) else ()))
        if self._takes_lines(inputs) and labels is None and images is None and not is_file(tokens):
            return Lines(self, tokens, inputs, line_end, tokenizer=tokenizer)
        if not has_files and inputs is None and labels is None and images is None and tokenizer is None:
            return _arguments.tokens(tokens, 2)
        data = Data(self, tokens, inputs, labels, images, tokenizer, in_order=not has_files)
        if not has_files and data.texts != self.batch_rows:
            reject("tokens", f"{self.batch_rows} rows, those of a step", str(data.texts), "give as many rows for each step")
        return data

    @checked
    def train_step(self, tokens, inputs=None, line_end=10, labels=None, images=None, tokenizer=None):
        """Performs a training step on [batch_rows, context + 1] token ids. Returns a Step.

        With `inputs`, `tokens` are batch_rows lines, and `inputs` has the lines of each named input: {"source": [ids, ...]}.
        Line i of each belongs to line i of the others. `line_end` is the id that ends a line, 10 for bytes.
        `labels` have a bit for each token, by the name of segments: {"words": [batch_rows, context + 1]}, and inputs of numbers have
        a number, or a row of them, for each token. With `images`, such as "32x32x3", `tokens` are batch_rows images. Paths name files
        that are read as by `sluice train`, with a `tokenizer` if they have one: the step then reads the first rows of its order.
        """
        data = self._open_step(tokens, inputs, line_end, labels, images, tokenizer)
        if isinstance(data, Data):
            return Step(*next(data.steps(1, None, 0)))
        if isinstance(data, Lines):
            return Step(*self._handle.train_lines(data.handle, data.number()))
        return Step(*self._handle.train_step(data))

    @checked
    def gradients(self, tokens, inputs=None, line_end=10, labels=None, images=None, tokenizer=None):
        """Returns the gradients of the next training step by name, as copies, without changing the weights. Arguments as of `train_step`."""
        sizes = [int(np.prod(shape, dtype=np.int64)) for _, shape in self._shapes]
        numbers = np.empty(sum(sizes), np.float32)
        data = self._open_step(tokens, inputs, line_end, labels, images, tokenizer)
        if isinstance(data, Data):
            self._handle.data_gradients(data.handle, numbers)
        elif isinstance(data, Lines):
            self._handle.line_gradients(data.handle, data.number(), numbers)
        else:
            self._handle.gradients(data, numbers)
        parts = np.split(numbers, np.cumsum(sizes)[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(self._shapes, parts)}

    @checked
    def train(self, source, steps=None, epochs=None, shuffle=None, start=0, inputs=None, line_end=10, labels=None, images=None,
              tokenizer=None):
        """Trains on token ids, and returns an iterator over the Step of each step.

        `source` is a text (one dimension), a list of texts, rows [n, context + 1], or an iterator over texts and rows.
        - Texts and rows in memory are read for `epochs`, or for `steps` steps, which may read several epochs; by default for one
          epoch. They are shuffled as `sluice train` shuffles files with the seed of `initialize`: the losses are the same.
          `shuffle=False` reads them in order. `start` leaves out the first steps, as those of a loaded checkpoint.
        - An iterator is read once, in its order, until it ends or for `steps` steps; InputError if it ends before. Its texts are
          joined, and cut into rows that share one token. Rows that do not fill a step are left out at the end.
        - With `inputs`, `source` is a list of lines, and `inputs` has as many lines of each named input, as in `train_step`.
        - Paths name files, which are read as by `sluice train`. `labels`, inputs of numbers and `images` are as in `train_step`, for
          each text of a list.
        """
        steps = None if steps is None else _arguments.integer("steps", steps, 0)
        epochs = None if epochs is None else _arguments.integer("epochs", epochs, 0)
        shuffle = None if shuffle is None else _arguments.flag("shuffle", shuffle)
        start = _arguments.integer("start", start, 0)
        if steps is not None and epochs is not None:
            reject("epochs", "either steps or epochs", "both", "leave one out")
        lines = self._takes_lines(inputs) and labels is None and images is None
        is_other = labels is not None or images is not None or tokenizer is not None or is_file(source)
        if (is_other or inputs is not None) and not (lines and not is_file(source)):
            data = Data(self, source, inputs, labels, images, tokenizer, in_order=shuffle is False, name="source")
            return (Step(*each) for each in data.steps(steps, epochs, start))
        if inputs is not None:
            return self._train_lines(Lines(self, source, inputs, line_end, "source", tokenizer), steps, epochs, shuffle is not False, start)
        data = open_source(source, self)
        if isinstance(data, Stream):
            for name, given in (("epochs", epochs), ("shuffle", shuffle or None), ("start", start or None)):
                if given is not None:
                    reject(name, "texts or rows in memory, as of a list", f"an iterator ({type(source).__name__})", "use list(source)")
            return self._train(data.batches(steps))
        return self._train(data.batches(steps, epochs, shuffle is not False, start))

    def _train(self, batches):
        for batch in batches:
            yield self.train_step(batch)

    def _train_lines(self, lines, steps, epochs, shuffle, start):
        for numbers in lines.batches(steps, epochs, shuffle, start):
            yield Step(*self._handle.train_lines(lines.handle, numbers))

    @checked
    def score(self, tokens, window=0, stride=0, inputs=None, line_end=10, labels=None, images=None, tokenizer=None):
        """Scores a text with overlapping windows, as `sluice eval` does. Returns an Evaluation.

        `window` 0: the context; `stride` 0: half the window. With `inputs`, `tokens` are lines, which are scored one by one, each
        with its end where the context holds it; `window` and `stride` are 0. Paths, `labels`, inputs of numbers and `images` are as
        in `train`; without labels their losses are left out.
        """
        window, stride = _arguments.integer("window", window, 0), _arguments.integer("stride", stride, 0)
        data = self._open_scored(tokens, inputs, line_end, labels, images, tokenizer)
        if isinstance(data, Data):
            result = self._handle.evaluate_data(data.handle, window, stride)
        elif isinstance(data, Lines):
            result = self._handle.evaluate_lines(data.handle, window, stride)
        else:
            result = self._handle.evaluate(data, window, stride)
        return Evaluation(*result, self._handle.losses())

    def _open_scored(self, tokens, inputs, line_end, labels, images, tokenizer):
        """Returns the held-out Data or the Lines, or an array of tokens."""
        if self._takes_lines(inputs) and labels is None and images is None:
            return Lines(self, tokens, inputs, line_end, tokenizer=tokenizer)
        if not is_file(tokens) and inputs is None and labels is None and images is None and tokenizer is None:
            return _arguments.tokens(tokens, 1)
        return Data(self, tokens, inputs, labels, images, tokenizer, held_out=True)

    @checked
    def evaluate(self, tokens, window=0, stride=0, inputs=None, line_end=10, labels=None, images=None, tokenizer=None):
        """Returns the mean nats of a scored token. Arguments as of `score`."""
        result = self.score(tokens, window, stride, inputs, line_end, labels, images, tokenizer)
        return result.nats / result.tokens

    @checked
    def logits(self, tokens, inputs=None, line_end=10, images=None, tokenizer=None):
        """Returns the logits after each token, [tokens, vocabulary], as `sluice logits` does.

        With `inputs`, `tokens` are lines: the logits of each token of a line, and of its end where the context holds it. Paths and
        `images` are as in `train`; files and images follow one another.
        """
        data = self._open_scored(tokens, inputs, line_end, None, images, tokenizer)
        if isinstance(data, Data):
            count, compute = self._handle.count_data_rows(data.handle), self._handle.data_logits
        elif isinstance(data, Lines):
            count, compute = self._handle.count_line_rows(data.handle), self._handle.line_logits
        else:
            count, compute = len(data), self._handle.logits
        rows = np.empty((count, self.vocabulary), np.float32)
        compute(data if isinstance(data, np.ndarray) else data.handle, rows)
        return rows

    @checked
    def activations(self, tokens, names):
        """Returns the rows of streams by name: of a stage's "to", or of a stage such as "stages.1.inside.2"."""
        ids = _arguments.tokens(tokens, 1)
        if isinstance(names, (bytes, bytearray, memoryview)) or not hasattr(names, "__iter__"):
            reject("names", "a name of a stream or a list of names", _arguments.describe(names), 'give one such as "stages.1"')
        names = [names] if isinstance(names, str) else names
        found = {}
        for name in [_arguments.text("names", name, "stages.1") for name in names]:
            found[name] = np.empty(self._handle.activation_shape(name, len(ids)), np.float32)
            self._handle.activations(name, ids, found[name])
        return found

    @checked
    def generate(self, prompt, tokens=256, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, seed=0, sample=0,
                 cached=True, inputs=None, line_end=10, line=None, tokenizer=None):
        """Returns an iterator over the token ids that continue a prompt, as `sluice generate` draws them.

        After a prompt of text or bytes, only ids of bytes are drawn. With `inputs`, one line of each named input, the text is a line
        that begins with the prompt, which may be empty. It ends before `line_end`, or at the context. `line` chooses one of several
        lines, from 0. Paths name files of lines, with a `tokenizer` if they have one.
        """
        ids = min(256, self.vocabulary) if tokenizer is None and are_texts(prompt, inputs) else 0
        tokens, seed, sample = (_arguments.integer(name, value, 0)
                                for name, value in (("tokens", tokens), ("seed", seed), ("sample", sample)))
        top_k, cached = _arguments.integer("top_k", top_k, 0), _arguments.flag("cached", cached)
        temperature, min_p = _arguments.number("temperature", temperature), _arguments.number("min_p", min_p)
        top_p, repetition_penalty = _arguments.number("top_p", top_p), _arguments.number("repetition_penalty", repetition_penalty)
        for name, value in (("top_p", top_p), ("repetition_penalty", repetition_penalty)):
            if value == 0:
                reject(name, "a number above 0", repr(value), "1 turns it off")
        handle = _sluice.Generator()
        start = _arguments.tokens(prompt, 1, "prompt")
        lines = None if inputs is None else Lines(self, None, inputs, line_end, tokenizer=tokenizer).single(line)
        number = 0 if line is None else _arguments.integer("line", line, 0)
        if tokens > 0:
            self._handle.generate(handle, start, lines, number, tokens, temperature, top_k, top_p, min_p, repetition_penalty, seed, sample, ids, cached)
        return Generator(handle)

    @checked
    def search(self, prompt, beam=4, tokens=None, length_penalty=0.6, min_tokens=0, no_repeat=0, end=None, cached=True, inputs=None,
               line_end=10, line=None, tokenizer=None):
        """Searches the best continuation of a prompt, as `sluice generate --beam` does. Returns a Found.

        `tokens` is the maximum number of tokens, the end included; None: 256, or those that fit into the context. `end` is the id that
        ends a text. After a prompt of text or bytes, only ids of bytes are written. `inputs` are those of `generate`: the text is then
        a line, which `line_end` ends.
        """
        ids = min(256, self.vocabulary) if tokenizer is None and are_texts(prompt, inputs) else 0
        beam = _arguments.integer("beam", beam, 1)
        tokens = 0 if tokens is None else _arguments.integer("tokens", tokens, 1)
        length_penalty = _arguments.number("length_penalty", length_penalty)
        min_tokens, no_repeat = _arguments.integer("min_tokens", min_tokens, 0), _arguments.integer("no_repeat", no_repeat, 0)
        end = -1 if end is None else _arguments.integer("end", end, 0, 2**31 - 1)
        cached, start = _arguments.flag("cached", cached), _arguments.tokens(prompt, 1, "prompt")
        lines = None if inputs is None else Lines(self, None, inputs, line_end, tokenizer=tokenizer).single(line)
        number = 0 if line is None else _arguments.integer("line", line, 0)
        return Found(*self._handle.search(start, lines, number, beam, tokens, length_penalty, min_tokens, no_repeat, ids, end, cached))

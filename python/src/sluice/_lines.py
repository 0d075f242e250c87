# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lines of a text and of named inputs."""

import os
import warnings

import numpy as np

from . import _sluice
from ._arguments import describe, integer, is_text, path, to_array
from ._errors import reject
from ._parts import are_files, open_line_files

_TEXTS = (str, bytes, bytearray, memoryview)


def are_texts(prompt, inputs):
    """Checks for a prompt, and lines of inputs if there are any, that are texts or bytes. Files are texts."""
    lines = [line for each in inputs.values() if isinstance(each, (list, tuple)) for line in each] if isinstance(inputs, dict) else []
    return is_text(prompt) and all(map(is_text, lines))


def _join(name, lines):
    """Returns the ids of all lines, the end of each, whether they are pairs, of lines that have two dimensions, and the path of a file."""
    if isinstance(lines, os.PathLike):
        return np.zeros(0, np.int32), np.zeros(0, np.int64), False, path(name, lines)
    if isinstance(lines, (*_TEXTS, dict, set, frozenset)) or not hasattr(lines, "__iter__"):
        reject(name, "a list of lines, each with the token ids of a line", describe(lines), "give a list, also of one line")
    arrays = [to_array(line, f"{name}, line {number}") for number, line in enumerate(lines, 1)]
    for number, array in enumerate(arrays, 1):
        if array.size > 0 and array.shape != (array.size,) and (array.ndim != 2 or array.shape[1] != 2):
            reject(f"{name}, line {number}", "one dimension, or pairs of the ends of edges", f"shape {list(array.shape)}", "reshape them")
    dimensions = {array.ndim for array in arrays if array.size > 0}
    if len(dimensions) > 1:
        reject(name, "ids or pairs in all lines", "both", "give pairs for edges, and else ids")
    ids = np.concatenate([np.zeros(0, np.int32), *(array.ravel() for array in arrays)])
    return ids, np.cumsum([array.size for array in arrays], dtype=np.int64), dimensions == {2}, None


class Lines:
    """The lines of a text (None: of inputs alone) and of the named inputs of a model, checked by it."""

    def __init__(self, model, text, inputs, line_end, name="tokens", tokenizer=None):
        if not isinstance(inputs, dict) or not all(isinstance(key, str) for key in inputs):
            reject("inputs", 'a dict of lists of lines by name, such as {"source": [b"a line"]}', describe(inputs), "give a dict")
        self._model, self.count, self.are_files = model, 0, bool(inputs) and are_files(text, inputs)
        if self.are_files:
            self.handle = open_line_files(model, text, inputs, tokenizer)
            return
        if tokenizer is not None:
            reject("tokenizer", "files of lines with it", "arrays", "give the paths of all files, or encode the lines")
        lists = [] if text is None else [(None, *_join(name, text))]
        lists += [(key, *_join(f"inputs.{key}", lines)) for key, lines in inputs.items()]
        self.count = max((len(ends) for _, _, ends, _, _ in lists), default=0)
        self.handle = _sluice.Lines()
        model._handle.open_lines(self.handle, lists, integer("line_end", line_end, 0, 2**31 - 1))
        for note in self.handle.describe().splitlines():
            warnings.warn(f"inputs: {note}", stacklevel=4)

    def number(self):
        """Returns the numbers of all lines."""
        return np.arange(self.count, dtype=np.int64)

    def single(self, line):
        """Returns the handle for line `line`; None: for the only line."""
        if line is None and (self.are_files or self.count != 1):
            found = "files" if self.are_files else f"{self.count} lines"
            reject("inputs", "one line of each input", found, "choose one with line=, and call generate for each line")
        return self.handle

    def batches(self, steps, epochs, shuffle, start):
        """Yields the numbers of the lines of each step. The last step of `epochs` may have lines of the next epoch."""
        handle, rows, first = self._model._handle, self._model.batch_rows, start * self._model.batch_rows
        if start >= (2**62) // rows:
            reject("start", "a number of steps of this source", str(start), "give a smaller one")
        if steps is None:
            steps = max(0, -(-(1 if epochs is None else epochs) * self.count // rows) - start)
        for step in range(steps):
            numbers = np.arange(first + step * rows, first + (step + 1) * rows, dtype=np.int64) % self.count
            if shuffle:
                handle.order_lines(self.count, first + step * rows, numbers)
            yield numbers

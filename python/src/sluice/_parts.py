# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files and arrays of data: texts with labels and numbers, images, and files of lines."""

import os
import warnings

import numpy as np

from . import _sluice
from ._arguments import describe, is_integer, path, text, to_array, to_numbers
from ._errors import reject

KINDS = ("lines", "edges", "numbers", "labels")  # of inputs, by their numbers
_TEXT, _INPUT, _LABEL = range(3)


def is_file(value):
    """Checks for the path of a file, or a list with one. A str is a text."""
    return isinstance(value, os.PathLike) or (isinstance(value, (list, tuple)) and any(isinstance(each, os.PathLike) for each in value))


def are_files(tokens, inputs):
    """Checks for files alone. `tokens` None: for the inputs."""
    values = [*([] if tokens is None else [tokens]), *(inputs.values() if isinstance(inputs, dict) else [None])]
    return all(isinstance(each, os.PathLike) or (isinstance(each, (list, tuple)) and each and all(isinstance(one, os.PathLike) for one in each))
               for each in values)


def _named(name, value, example):
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        reject(name, f"a dict by name, such as {example}", describe(value), "give a dict")
    return value


def _split(value, name, convert, dimensions):
    """Returns the files and arrays of texts. An array with one dimension more than `dimensions` allows for has a text in each row."""
    if isinstance(value, os.PathLike):
        return [path(name, value)]
    is_list = isinstance(value, (list, tuple)) and not (len(value) > 0 and all(is_integer(each) or isinstance(each, (float, np.floating)) for each in value))
    if is_list:
        return [part for each in value for part in _split_one(each, name, convert, dimensions)]
    return _split_one(value, name, convert, dimensions)


def _split_one(value, name, convert, dimensions):
    if isinstance(value, os.PathLike):
        return [path(name, value)]
    array = convert(value, name)
    if array.ndim in dimensions:
        return [array]
    if array.ndim in [each + 1 for each in dimensions]:
        return list(array)
    reject(name, "an array for a text, or rows of such arrays", f"shape {list(array.shape)}", "reshape it")


def make_parts(model, tokens, inputs, labels, images):
    """Returns the parts of sluice_open_data, and the number of texts."""
    texts = [] if tokens is None else _split(tokens, "tokens", _pixels if images else to_array, (1,))
    parts = [_part(_TEXT, None, each) for each in texts]
    for key, value in _named("inputs", inputs, '{"source": Path("lines.txt")}').items():
        name = f"inputs.{key}"
        if model.inputs.get(key) == "numbers":
            # A weight has one dimension, and a target has a row of the vocabulary for each token.
            wide = model._widths[key] > 1
            arrays = _split(value, name, to_numbers, (2,) if wide else (1,))
        else:
            arrays = _split(value, name, to_numbers, (1, 2))
        parts += [_part(_INPUT, key, each) for each in arrays]
    for key, value in _named("labels", labels, '{"words": bits}').items():
        parts += [_part(_LABEL, key, each) for each in _split(value, f"labels.{key}", to_array, (1,))]
    return parts, len(texts)


def _pixels(value, name):
    """Returns images as rows of bytes."""
    array = to_array(value, name)
    return array.reshape(len(array), -1) if array.ndim > 2 else array


def _part(role, name, value):
    if isinstance(value, str):
        return (role, name, value, None, None)
    if role == _INPUT:
        return (role, name, None, None, value if value.ndim == 2 else value.reshape(-1, 1))
    return (role, name, None, value, None)


class Data:
    """Data that the model checked. `held_out`: for evaluation and logits."""

    def __init__(self, model, tokens, inputs=None, labels=None, images=None, tokenizer=None, held_out=False, in_order=False, name="tokens"):
        images = text("images", images, "32x32x3", optional=True)
        tokenizer = None if tokenizer is None else path("tokenizer", tokenizer)
        parts, self.texts = make_parts(model, tokens, inputs, labels, images)
        if not parts:
            reject(name, "at least one text", "none", "give one")
        self._model, self.handle = model, _sluice.Data()
        model._handle.open_data(self.handle, parts, images, tokenizer, held_out, in_order)
        for note in self.handle.describe().splitlines():
            warnings.warn(f"{name}: {note}", stacklevel=4)

    def steps(self, steps, epochs, start):
        """Trains, and yields the loss and the gradient norm of each step. The last step of `epochs` may have rows of the next epoch."""
        handle, done = self._model._handle, 0
        epoch, index = handle.skip_steps(self.handle, start)
        while done < steps if steps is not None else epoch < (1 if epochs is None else epochs):
            loss, norm, epoch, index = handle.train_data(self.handle, epoch, index)
            done += 1
            yield loss, norm


def open_line_files(model, tokens, inputs, tokenizer):
    """Returns the handle of files of lines. `tokens` None: of the inputs alone."""
    handle = _sluice.Lines()
    tokenizer = None if tokenizer is None else path("tokenizer", tokenizer)
    model._handle.open_line_files(handle, make_parts(model, tokens, inputs, None, None)[0], tokenizer)
    for note in handle.describe().splitlines():
        warnings.warn(f"inputs: {note}", stacklevel=4)
    return handle

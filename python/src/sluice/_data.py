# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sources of training data: texts and rows in memory, and iterators."""

import warnings

import numpy as np

from ._arguments import describe, is_integer, to_array
from ._errors import reject

_ORDERED = 4096  # rows whose order is computed at once


class Rows:
    """Texts in memory, from which rows of context + 1 tokens are cut. A given row is a text of this length."""

    def __init__(self, texts, model):
        self._context, self._batch_rows, self._handle = model.context, model.batch_rows, model._handle
        self._texts = [text for text in texts if len(text) > self._context]
        short = len(texts) - len(self._texts)
        if not self._texts:
            longest = max((len(text) for text in texts), default=0)
            reject("source", f"a text of at least {self._context + 1} tokens, the context and one to predict",
                   f"{longest} tokens in the longest of {len(texts)} texts", "give longer texts")
        if short > 0:
            warnings.warn(f"source: {short} of {len(texts)} texts have fewer tokens than a row of {self._context + 1}, and are not read",
                          stacklevel=4)
        self._lengths = np.array([len(text) for text in self._texts], np.int64)

    def batches(self, steps, epochs, shuffle, start):
        """Yields [batch_rows, context + 1] token ids. The last step of `epochs` may have rows of the next epoch."""
        places = self._shuffled if shuffle else self._ordered
        *_, epoch_rows = places(0, 0)
        if steps is None:
            total = (1 if epochs is None else epochs) * epoch_rows
            steps = max(0, -(-total // self._batch_rows) - start)
        if start >= (2**62) // self._batch_rows:
            reject("start", "a number of steps of this source", str(start), "give a smaller one")
        return self._cut(places, steps, start * self._batch_rows)

    def _cut(self, places, steps, first):
        texts, starts, at = (), (), 0
        columns = np.arange(self._context + 1)
        for _ in range(steps):
            if at == len(texts):
                count = max(1, _ORDERED // self._batch_rows) * self._batch_rows
                texts, starts, _ = places(first, count)
                first, at = first + count, 0
            end = at + self._batch_rows
            yield np.stack([self._texts[text].take(start + columns, mode="wrap") for text, start in zip(texts[at:end], starts[at:end])])
            at = end

    def _shuffled(self, first, count):
        """Returns the texts and starts of rows in the order of `sluice train`, and the number of rows of an epoch."""
        texts, starts = np.empty(count, np.int64), np.empty(count, np.int64)
        return texts, starts, self._handle.order_rows(self._lengths, first, texts, starts)

    def _ordered(self, first, count):
        """Returns the same of rows from the beginning of each text on, in order."""
        ends = np.cumsum((self._lengths - 1) // self._context)
        rows = np.arange(first, first + count) % ends[-1]
        texts = np.searchsorted(ends, rows, side="right")
        return texts, (rows - np.concatenate([[0], ends])[texts]) * self._context, int(ends[-1])


class Stream:
    """An iterator over texts and rows."""

    def __init__(self, source, model):
        self._source, self._context, self._batch_rows = source, model.context, model.batch_rows

    def batches(self, steps):
        """Yields [batch_rows, context + 1] token ids. Raises InputError if the source ends before `steps` steps, or before one."""
        done, batches = 0, self._all()
        while steps is None or done < steps:
            batch = next(batches, None)
            if batch is None:
                break
            yield batch
            done += 1
        if done < (1 if steps is None else steps):
            reject("source", f"rows for {'at least one step' if steps is None else f'{steps} steps'} of {self._batch_rows} rows",
                   f"the end of the iterator after {done} steps", "give more tokens, or texts in a list with epochs")

    def _all(self):
        rest, rows = np.zeros(0, np.int32), []
        for item in self._source:
            ids = _item(item, self._context)
            if ids.ndim == 2:
                rows.extend(ids)
            else:
                rest = np.concatenate([rest, ids])
                count = max(0, (len(rest) - 1) // self._context)
                rows.extend(rest[i * self._context : (i + 1) * self._context + 1] for i in range(count))
                rest = rest[count * self._context :]
            while len(rows) >= self._batch_rows:
                yield np.stack(rows[: self._batch_rows])
                del rows[: self._batch_rows]


def _item(value, context):
    """Returns a text, or rows of context + 1 tokens."""
    ids = to_array(value, "source")
    if ids.ndim not in (1, 2):
        reject("source", "texts of one dimension, or rows", f"shape {list(ids.shape)}", "reshape them")
    if ids.ndim == 2 and ids.shape[1] != context + 1:
        reject("source", f"rows of {context + 1} tokens", f"shape {list(ids.shape)}", "cut the text into such rows")
    return ids


def open_source(source, model):
    """Returns the Rows of texts and rows in memory, or the Stream of an iterator."""
    is_list = isinstance(source, (list, tuple)) and not (len(source) > 0 and all(is_integer(each) for each in source))
    if isinstance(source, (str, bytes, bytearray, memoryview, np.ndarray, list, tuple)) or hasattr(source, "__dlpack__"):
        texts = []
        for item in source if is_list else [source]:
            ids = _item(item, model.context)
            texts.extend(ids if ids.ndim == 2 else [ids])
        return Rows(texts, model)
    if not hasattr(source, "__iter__") or isinstance(source, (dict, set, frozenset)):
        reject("source", "texts, rows of token ids, or an iterator over them", describe(source), "give a list of arrays")
    return Stream(source, model)

# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks and converts arguments. Each function raises InputError with the name of the argument."""

import functools
import inspect
import json
import operator
import os

import numpy as np

from ._errors import reject


def checked(function):
    """Decorates a public function: wrong, missing or unknown arguments of a call raise InputError instead of TypeError."""
    name = function.__name__ if function.__name__ != "__init__" else "Model"

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            if error.__traceback__.tb_next is not None:  # raised within the function
                raise
            found = str(error).split("() ", 1)[-1]
        reject(name, f"the arguments {inspect.signature(function)}", f"a call that is {found}", "change the call")

    return call


def describe(value):
    """Describes a value for a message: its type, and a short value itself."""
    if value is None:
        return "None"
    text = repr(value) if isinstance(value, (bool, int, float, str, bytes, np.generic)) else ""
    return text if 0 < len(text) <= 60 else type(value).__name__


def integer(name, value, least=-(2**63), most=2**63 - 1):
    """Returns an integer of Python, NumPy or an array of one integer. Booleans and floating-point numbers are wrong."""
    limits = f"from {least} to {most}" if most < 2**63 - 1 else f"of at least {least}"
    limits = "" if least == -(2**63) else f" {limits}"
    try:
        number = None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        reject(name, f"an integer{limits}", describe(value), "give an integer")
    if not least <= number <= most:
        reject(name, f"an integer{limits}", str(number), "give another")
    return number


def number(name, value):
    """Returns a number as a float."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        reject(name, "a number", describe(value), "give an integer or a float")
    try:
        return float(value)
    except OverflowError:
        reject(name, "a number that a float holds", "a larger one", "give another")


def flag(name, value):
    """Returns True or False."""
    if not isinstance(value, (bool, np.bool_)):
        reject(name, "True or False", describe(value), "give one of them")
    return bool(value)


def text(name, value, example, optional=False):
    """Returns a text that is not empty; None if `optional`."""
    if value is None and optional:
        return None
    if not isinstance(value, str):
        reject(name, f"a text such as {example!r}{' or None' if optional else ''}", describe(value), "give a text")
    return _encodable(name, value)


def path(name, value):
    """Returns a path as a text."""
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str):
        reject(name, "a path as a text or an os.PathLike", describe(value), "give a path")
    return _encodable(name, os.fspath(value))


def _encodable(name, value):
    """Returns a text that a C string can hold."""
    if not value or "\0" in value:
        reject(name, "a text of at least one character, without NUL", "an empty one" if not value else "a NUL", "give another")
    try:
        value.encode()
    except UnicodeEncodeError:
        reject(name, "characters of Unicode", describe(value), "name a file in UTF-8")
    return value


def targets(value):
    """Returns the targets of a compilation, separated by commas, or None."""
    if value is None:
        return None
    if isinstance(value, str):
        return text("targets", value, "cpu-avx2,sm_80")
    if not isinstance(value, (list, tuple)) or not value:
        reject("targets", 'a list such as ["cpu-avx2", "sm_80"], or None', describe(value) if value != [] else "an empty list",
               "None compiles for this machine's CPU")
    return ",".join(text("targets", each, "cpu-avx2") for each in value)


def spec(value):
    """Returns the path and the text of a spec: a dict, JSON text, or a path."""
    if isinstance(value, dict):
        try:
            return "spec.json", json.dumps(value, indent=1)
        except (TypeError, ValueError, RecursionError) as error:
            reject("spec", "a dict that JSON can hold", f"one that it cannot ({error})", "use dicts, lists, texts and numbers")
    if isinstance(value, str) and value.lstrip().startswith("{"):
        return "spec.json", _encodable("spec", value)
    if isinstance(value, (str, os.PathLike)):
        return path("spec", value), None
    reject("spec", "a dict, JSON text or a path", describe(value), "give one of them")


def tokens(value, dimensions, name="tokens"):
    """Returns token ids as a contiguous array of int32: a copy, unless they have this form."""
    value = to_array(value, name)
    if value.ndim != dimensions:
        reject(name, f"{dimensions} dimension{'s' * (dimensions > 1)}", f"shape {list(value.shape)}", "reshape them")
    return value


def to_array(value, name):
    """Returns token ids of any shape as a contiguous array of int32."""
    if isinstance(value, str):
        try:
            value = value.encode()
        except UnicodeEncodeError:
            reject(name, "characters of Unicode", describe(value), "decode the text with its encoding first")
    if isinstance(value, np.ma.MaskedArray):
        reject(name, "an array without a mask", "a masked array", "compress it, or fill its masked elements")
    if is_text(value):
        value = np.frombuffer(value, np.uint8)
    elif isinstance(value, memoryview):
        value = _view(value, name)
    elif not isinstance(value, np.ndarray):
        value = _convert(value, name)
    if value.dtype.kind not in "iu":
        reject(name, "integers", f"numbers of type {value.dtype}", "convert them to int32")
    if value.dtype != np.int32 and value.size > 0:
        for extreme in (int(value.min()), int(value.max())):
            if not -(2**31) <= extreme < 2**31:
                reject(name, "token ids below the vocabulary", str(extreme), "encode the text for this model")
    return np.asarray(value, np.int32, order="C")


def to_numbers(value, name):
    """Returns numbers of any shape as a contiguous array of float32."""
    if isinstance(value, np.ma.MaskedArray):
        reject(name, "an array without a mask", "a masked array", "compress it, or fill its masked elements")
    try:
        array = np.from_dlpack(value) if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray) else np.asarray(value)
    except Exception as error:  # uneven rows, another device
        reject(name, "numbers of an array or a sequence", f"{describe(value)} ({error})", "give an array of float32")
    if array.dtype.kind not in "fiu":
        reject(name, "an array of numbers, or the path of a file", f"values of type {array.dtype}", "convert them to float32")
    return np.asarray(array, np.float32, order="C")


def is_integer(value):
    """Checks for an integer that is no truth value."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))


def is_text(value):
    """Checks for a text or bytes. A memoryview of other numbers is an array."""
    try:
        is_bytes = isinstance(value, memoryview) and value.format in ("B", "b", "c") and value.c_contiguous
        return is_bytes or isinstance(value, (str, bytes, bytearray))
    except ValueError:  # it is released
        return False


def _view(value, name):
    """Returns the numbers of a memoryview."""
    try:
        array = np.asarray(value)
    except ValueError as error:  # it is released, or numbers have a format without a counterpart
        reject(name, "a memoryview of integers", f"one without an array ({error})", "give an array")
    return array.view(np.uint8) if array.dtype == "S1" else array


def _convert(value, name):
    """Returns an array of another library or a sequence as an array of NumPy."""
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except Exception as error:  # another device, or a type without a counterpart
            reject(name, "an array of integers in the CPU's memory", f"{type(value).__name__} ({error})", "convert it to int32 on the CPU")
    try:
        if any(isinstance(each, (bool, np.bool_)) for each in (value if isinstance(value, (list, tuple)) else ())):
            reject(name, "integers", "booleans", "convert them to int32")
        value = np.asarray(value if hasattr(value, "__len__") else list(value))
    except (TypeError, ValueError, OverflowError) as error:
        if hasattr(error, "remedy"):
            raise
        reject(name, "integers of an array or a sequence", f"{describe(value)} ({error})", "give an array, or a list with rows of one length")
    return value.astype(np.int32) if value.size == 0 else value

# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exceptions of the package."""

from typing import NamedTuple, Optional


class Witness(NamedTuple):
    """In a sequence of `length` tokens, row `row` reads token `token`, which it must not."""

    length: int
    row: int
    token: int


class Error(Exception):
    """A failure, with the parts of its message; parts that the message lacks are empty or 0."""

    def __init__(self, message, file="", line=0, column=0, expected="", found="", remedy=""):
        super().__init__(message)
        self.message, self.file, self.line, self.column = message, file, line, column
        self.expected, self.found, self.remedy = expected, found, remedy


class InputError(Error, ValueError):
    """A spec, a file or an argument is wrong."""


class LeakError(Error):
    """A spec is not proved causal. `witness` is None if there is neither a proof nor a leak."""

    witness: Optional[Witness] = None


class JobError(Error, RuntimeError):
    """A job or the machine failed on good input: numbers that are not finite, no memory, a full disk."""


class InternalError(Error, RuntimeError):
    """A defect of Sluice."""


def make(status, message, file, line, column, expected, found, remedy, length, row, token):
    """Returns the exception for a status of the C interface."""
    kind = {2: InputError, 3: InternalError, 4: LeakError}.get(status, JobError)
    error = kind(message, file, line, column, expected, found, remedy)
    if kind is LeakError and length >= 0:
        error.witness = Witness(length, row, token)
    return error


def reject(name, expected, found, remedy):
    """Raises the InputError of an argument."""
    raise InputError(f"{name}: expected {expected}, found {found}; {remedy}", "", 0, 0, expected, found, remedy)

# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from os import PathLike
from typing import Any, Iterable, Iterator, NamedTuple, Optional, Sequence, Union

import numpy as np
from numpy.typing import NDArray

__version__: str

Spec = Union[dict[str, Any], str, PathLike[str]]
Path = Union[str, PathLike[str]]
Tokens = Any  # bytes, text, integers of an array with __dlpack__ on the CPU, or a sequence of integers
Text = Any  # Tokens; with inputs a list of lines, each of Tokens
Inputs = dict[str, Any]  # lines of each named input, each of Tokens; of edges, pairs; numbers; or os.PathLike, a file
Labels = dict[str, Any]  # a bit for each token of each text, by the name of segments; or os.PathLike, a file
Source = Any  # Tokens of one or two dimensions, a list of them, an iterator over them; or os.PathLike, files

class Witness(NamedTuple):
    length: int
    row: int
    token: int

class Error(Exception):
    message: str
    file: str
    line: int
    column: int
    expected: str
    found: str
    remedy: str

class InputError(Error, ValueError): ...

class LeakError(Error):
    witness: Optional[Witness]

class JobError(Error, RuntimeError): ...
class InternalError(Error, RuntimeError): ...

class Verdict(NamedTuple):
    proved: bool
    witness: Optional[Witness]
    text: str
    remedy: str = ""

class Step(NamedTuple):
    loss: float
    gradient_norm: float

class Evaluation(NamedTuple):
    nats: float
    tokens: int
    window: int
    stride: int
    losses: dict[str, float]

class Found(NamedTuple):
    tokens: list[int]
    score: float
    finished: bool

def check(spec: Spec) -> Verdict: ...
def compile(
    spec: Spec,
    path: Path,
    targets: Union[None, str, Sequence[str]] = None,
    precision: Optional[str] = None,
    memory_budget: int = 0,
    allow_leak: bool = False,
    generation_rows: int = 16,
    weights: Optional[str] = None,
) -> None: ...
def load(path: Path, device: str = "cpu", threads: int = 0, target: Optional[str] = None) -> Model: ...

class Generator(Iterator[int]):
    def __iter__(self) -> Generator: ...
    def __next__(self) -> int: ...
    def close(self) -> None: ...

class Model:
    vocabulary: int
    context: int
    batch_rows: int
    parameter_count: int
    is_proved: bool
    inputs: dict[str, str]
    def __init__(self, path: Path, device: str = "cpu", threads: int = 0, target: Optional[str] = None) -> None: ...
    @property
    def step(self) -> int: ...
    def initialize(self, seed: int = 0) -> None: ...
    def load_weights(self, path: Path) -> None: ...
    def load_checkpoint(self, run: Path, step: Optional[int] = None) -> None: ...
    def save_weights(self, path: Path) -> None: ...
    def parameters(self) -> dict[str, NDArray[np.float32]]: ...
    def train_step(
        self,
        tokens: Text,
        inputs: Optional[Inputs] = None,
        line_end: int = 10,
        labels: Optional[Labels] = None,
        images: Optional[str] = None,
        tokenizer: Optional[Path] = None,
    ) -> Step: ...
    def gradients(
        self,
        tokens: Text,
        inputs: Optional[Inputs] = None,
        line_end: int = 10,
        labels: Optional[Labels] = None,
        images: Optional[str] = None,
        tokenizer: Optional[Path] = None,
    ) -> dict[str, NDArray[np.float32]]: ...
    def train(
        self,
        source: Source,
        steps: Optional[int] = None,
        epochs: Optional[int] = None,
        shuffle: Optional[bool] = None,
        start: int = 0,
        inputs: Optional[Inputs] = None,
        line_end: int = 10,
        labels: Optional[Labels] = None,
        images: Optional[str] = None,
        tokenizer: Optional[Path] = None,
    ) -> Iterator[Step]: ...
    def score(
        self,
        tokens: Text,
        window: int = 0,
        stride: int = 0,
        inputs: Optional[Inputs] = None,
        line_end: int = 10,
        labels: Optional[Labels] = None,
        images: Optional[str] = None,
        tokenizer: Optional[Path] = None,
    ) -> Evaluation: ...
    def evaluate(
        self,
        tokens: Text,
        window: int = 0,
        stride: int = 0,
        inputs: Optional[Inputs] = None,
        line_end: int = 10,
        labels: Optional[Labels] = None,
        images: Optional[str] = None,
        tokenizer: Optional[Path] = None,
    ) -> float: ...
    def logits(
        self,
        tokens: Text,
        inputs: Optional[Inputs] = None,
        line_end: int = 10,
        images: Optional[str] = None,
        tokenizer: Optional[Path] = None,
    ) -> NDArray[np.float32]: ...
    def activations(self, tokens: Tokens, names: Union[str, Iterable[str]]) -> dict[str, NDArray[np.float32]]: ...
    def generate(
        self,
        prompt: Tokens,
        tokens: int = 256,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
        sample: int = 0,
        cached: bool = True,
        inputs: Optional[Inputs] = None,
        line_end: int = 10,
        line: Optional[int] = None,
        tokenizer: Optional[Path] = None,
    ) -> Generator: ...
    def search(
        self,
        prompt: Tokens,
        beam: int = 4,
        tokens: Optional[int] = None,
        length_penalty: float = 0.6,
        min_tokens: int = 0,
        no_repeat: int = 0,
        end: Optional[int] = None,
        cached: bool = True,
        inputs: Optional[Inputs] = None,
        line_end: int = 10,
        line: Optional[int] = None,
        tokenizer: Optional[Path] = None,
    ) -> Found: ...

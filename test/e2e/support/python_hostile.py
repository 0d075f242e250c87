# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks of the package sluice against arguments, signal handlers and threads that it does not expect."""

import ctypes
import gc
import itertools
import json
import re
import signal
import threading
import time
import warnings

import numpy as np
from python_checks import ROOT, TINY, WORK, check, compile_tiny, make_batch, raises

import sluice

LONG = np.tile(np.arange(256, dtype=np.int32), 20000)


class Done(BaseException):
    """Ends the call that a handler interrupted."""


def during(method, action, handler):
    """Runs `action` and, while it is in a method of the package, `handler` as a signal handler, which ends the action.

    Returns what the handler returned or raised.
    """
    results = []

    def handle(_, frame):
        if frame is None or frame.f_code.co_name != method:
            signal.setitimer(signal.ITIMER_REAL, 0.05)  # too early: again later
            return
        try:
            results.append(handler())
        except Exception as error:
            results.append(error)
        raise Done

    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        action()
    except Done:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
    return results[0] if results else None


def check_handlers():
    model, other = sluice.load(compile_tiny("vanilla"), threads=1), sluice.load(compile_tiny("hourglass"), threads=1)
    model.initialize(1)
    other.initialize(1)
    batch, short = make_batch(model), np.arange(100)
    alone = other.evaluate(short)
    model.logits(short)  # compiles

    def evaluate():
        model.evaluate(LONG)

    for name, handler in (("evaluate", lambda: model.evaluate(short)), ("train_step", lambda: model.train_step(batch)),
                          ("gradients", lambda: model.gradients(batch)), ("logits", lambda: model.logits(short)),
                          ("parameters", lambda: model.parameters()), ("generate", lambda: model.generate(b"a")),
                          ("initialize", lambda: model.initialize(1)), ("load_weights", lambda: model.load_weights(WORK / "none"))):
        error = during("score", evaluate, handler)
        check(f"a handler in evaluate: {name}", isinstance(error, sluice.InputError) and "in use" in str(error), repr(error))
    check("a handler in evaluate: step", during("score", evaluate, lambda: model.step) == 0)
    check("a handler in evaluate: another model", during("score", evaluate, lambda: other.evaluate(short)) == alone)
    error = during("train_step", lambda: list(model.train(itertools.repeat(batch))), lambda: model.evaluate(short))
    check("a handler in train", isinstance(error, sluice.InputError) or np.isfinite(error), repr(error))
    generator = model.generate(b"a", tokens=2**40)
    error = during("__next__", lambda: list(generator), lambda: next(generator))
    check("a handler in a generator: next", isinstance(error, (sluice.InputError, int)), repr(error))
    check("a handler in a generator: close", during("__next__", lambda: list(generator), lambda: generator.close() or "closed") == "closed")
    check("a closed generator ends", list(generator) == [])

    def lose():
        lost = [model.generate(b"a")]
        lost.append(lost)  # a cycle: the collector frees the generator
        return lost

    lost = lose()
    check("a generator is collected in a call", during("score", evaluate, lambda: (lost.clear(), gc.collect(), "done")[-1]) == "done")
    del lost
    raised = []

    def interrupt():
        other.evaluate(short)  # must not end the polling of the call that it interrupts
        raised.append(1)
        if len(raised) > 1:
            raise KeyboardInterrupt
        signal.setitimer(signal.ITIMER_REAL, 0.1)

    # One signal at a time: on a busy machine a timer that repeats also interrupts the handler, and what follows the exception.
    signal.signal(signal.SIGALRM, lambda *_: interrupt())
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        model.evaluate(np.tile(LONG, 4))
        check("Ctrl-C after a handler that uses another model", False, "finished")
    except KeyboardInterrupt:
        check("Ctrl-C after a handler that uses another model", True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)


def check_interrupt_of_c():
    """The function of sluice_set_interrupt uses and frees objects of the call that runs it."""
    library = ctypes.CDLL(str(ROOT / "build/lib/libsluice.so"))
    ends = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)

    class Facts(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_int64) for name in ("vocabulary", "context", "rows", "numbers", "tensors",
                                                                                        "step")] + [("is_proved", ctypes.c_int32)]

    class Evaluation(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), ("window", ctypes.c_int64), ("stride", ctypes.c_int64), ("nats", ctypes.c_double),
                    ("tokens", ctypes.c_int64)]

    class Tensor(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("shape", ctypes.c_void_p),
                    ("rank", ctypes.c_int64), ("elements", ctypes.c_int64)]

    class Error(ctypes.Structure):
        _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char_p), ("file", ctypes.c_char_p), ("line", ctypes.c_int64),
                    ("column", ctypes.c_int64), ("expected", ctypes.c_char_p), ("found", ctypes.c_char_p), ("remedy", ctypes.c_char_p)]

    library.sluice_last_error.restype = ctypes.POINTER(Error)
    message = lambda: library.sluice_last_error().contents.message.decode()
    model, generator = ctypes.c_void_p(), ctypes.c_void_p()
    artifact = str(compile_tiny("vanilla")).encode()
    check("C: load", library.sluice_load(artifact, None, ctypes.byref(model)) == 0)
    tokens = (ctypes.c_int32 * 1000)(*range(1, 200))
    evaluation = Evaluation(ctypes.sizeof(Evaluation))
    check("C: no weights", library.sluice_evaluate(model, tokens, ctypes.c_int64(1000), ctypes.byref(evaluation)) == 2
          and "never set" in message(), message())
    tensor = Tensor(ctypes.sizeof(Tensor))
    library.sluice_initialize(model, ctypes.c_int64(1))
    check("C: no gradient", library.sluice_get_gradient(model, ctypes.c_int64(0), ctypes.byref(tensor)) == 2
          and "gradients" in message(), message())
    rows, width = ctypes.c_int64(), ctypes.c_int64()
    for count in (-1, 0):
        check(f"C: the shape of {count} rows", library.sluice_get_activation_shape(
            model, b"stages.1", ctypes.c_int64(count), ctypes.byref(rows), ctypes.byref(width)) == 2 and str(count) in message(), message())
    check("C: a wrong size", library.sluice_get_facts(model, ctypes.byref(Facts(3))) == 2 and "size: expected" in message()
          and library.sluice_last_error().contents.file == b"", message())

    statuses = []

    @ends
    def use(_):
        facts = Facts(ctypes.sizeof(Facts))
        statuses.append((library.sluice_get_facts(model, ctypes.byref(facts)),
                         library.sluice_evaluate(model, tokens, ctypes.c_int64(1000), ctypes.byref(evaluation)), message()))
        return 0

    library.sluice_set_interrupt(use, None)
    status = library.sluice_evaluate(model, tokens, ctypes.c_int64(1000), ctypes.byref(evaluation))
    check("C: the model of the call is in use", status == 0 and statuses and all(
        first == 0 and second == 2 and "in use" in text for first, second, text in statuses), str(statuses[:2]))

    @ends
    def free(_):
        library.sluice_free_generator(generator)
        library.sluice_free_model(model)
        library.sluice_set_interrupt(ends(), None)
        return 0

    library.sluice_generate(model, tokens, ctypes.c_int64(3), None, ctypes.byref(generator))
    library.sluice_set_interrupt(free, None)
    token = ctypes.c_int32()
    check("C: objects of the call are freed in it", library.sluice_next(generator, ctypes.byref(token)) == 0 and token.value >= 0)
    library.sluice_set_interrupt(None, None)


def check_writes():
    """After `parameters`, a generator computes its text again for a write alone."""
    model = sluice.load(compile_tiny("vanilla"), threads=1)
    model.initialize(1)
    written = sluice.load(compile_tiny("vanilla"), threads=1)
    for name, array in model.parameters().items():
        written.parameters()[name][...] = array
    check("parameters: weights that were written are weights", written.evaluate(LONG[:200]) == model.evaluate(LONG[:200]))
    alone = list(model.generate(b"water", tokens=50))
    held = model.parameters()
    check("parameters: the same tokens", list(model.generate(b"water", tokens=50)) == alone)
    generator = model.generate(b"water", tokens=50)
    begun = [next(generator) for _ in range(10)]
    check("parameters: a generator continues", begun + list(generator) == alone)
    array = held[next(name for name in held if name.endswith("query.weight"))]
    generator = model.generate(b"water", tokens=50, temperature=0)
    for _ in range(10):
        next(generator)
    text = np.frombuffer(b"water" + bytes(list(model.generate(b"water", tokens=10, temperature=0))), np.uint8)
    array += 1
    check("parameters: a write within a generation", next(generator) == int(model.logits(text)[-1].argmax()))
    array -= 1
    last = model.evaluate(LONG[:200])
    array[0, 0] += 1
    view = np.from_dlpack(array)
    del held, array
    gc.collect()
    changed = model.evaluate(LONG[:200])
    check("parameters: the last write of a lost array", changed != last)
    view[0, 0] -= 1
    check("parameters: a view keeps its array", model.evaluate(LONG[:200]) != changed)

    def measure():
        best = np.inf
        for _ in range(3):
            generator = model.generate(b"water", tokens=40, temperature=0)
            next(generator)
            begin = time.monotonic()
            for _ in generator:
                pass
            best = min(best, time.monotonic() - begin)
        return best

    del view
    gc.collect()
    before = measure()
    held = model.parameters()
    after = measure()
    print(f"# 40 tokens: {before * 1e3:.2f} ms, with parameters {after * 1e3:.2f} ms", flush=True)
    check("parameters: generation is not recomputed", after < 8 * before + 0.005, f"{before} {after}")  # a recomputation takes 30 times
    del held


def check_races():
    model = sluice.load(compile_tiny("vanilla"), threads=1)
    model.initialize(1)
    batch = make_batch(model)
    expected = model.gradients(batch)
    first = {name: array.copy() for name, array in model.parameters().items()}
    wrong, done = [], threading.Event()

    def disturb():
        while not done.is_set():
            model.evaluate(LONG[:300])
            model.gradients(make_batch(model, 7))

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(50):
            own = model.gradients(batch)
            wrong += [name for name in own if not np.array_equal(own[name], expected[name])]
    finally:
        done.set()
        thread.join()
    check("gradients: not those of another thread", not wrong and all(np.array_equal(first[n], a) for n, a in model.parameters().items()))
    closed = []
    for _ in range(50):
        generator = model.generate(b"a", tokens=2**30)
        thread = threading.Thread(target=lambda: closed.extend(itertools.islice(generator, 10**9)))
        thread.start()
        next(generator, None)
        generator.close()
        thread.join()
    check("a generator is closed on another thread", True)


def check_arguments():
    artifact = compile_tiny("vanilla")
    model = sluice.load(artifact, threads=1)
    batch, tokens = make_batch(model), np.arange(100)
    for name, action in (("train_step", lambda: model.train_step(batch)), ("gradients", lambda: model.gradients(batch)),
                         ("train", lambda: list(model.train(bytes(1000)))), ("evaluate", lambda: model.evaluate(tokens)),
                         ("logits", lambda: model.logits(tokens)), ("generate", lambda: model.generate(b"a")),
                         ("activations", lambda: model.activations(tokens, "stages.1")), ("save_weights", lambda: model.save_weights(WORK / "w"))):
        raises(f"no weights: {name}", sluice.InputError, action, "weights", "initialize")
    model.initialize(1)
    spec = TINY / "vanilla.json"
    wrong = {
        "a missing argument": lambda: model.train_step(), "an unknown argument": lambda: model.logits(tokens, size=3),
        "load: None": lambda: sluice.load(None), "load: a number": lambda: sluice.load(3), "load: bytes": lambda: sluice.load(b"a"),
        "load: empty": lambda: sluice.load(""), "load: NUL": lambda: sluice.load("a\0b"), "load: surrogates": lambda: sluice.load("\udc80"),
        "device: None": lambda: sluice.load(artifact, device=None), "device: a number": lambda: sluice.load(artifact, device=1),
        "threads: a float": lambda: sluice.load(artifact, threads=1.5), "threads: a text": lambda: sluice.load(artifact, threads="2"),
        "threads: negative": lambda: sluice.load(artifact, threads=-1), "threads: huge": lambda: sluice.load(artifact, threads=2**40),
        "target: a number": lambda: sluice.load(artifact, target=3), "target: unknown": lambda: sluice.load(artifact, target="cpu-z80"),
        "seed: a float": lambda: model.initialize(1.5), "seed: None": lambda: model.initialize(None),
        "seed: huge": lambda: model.initialize(2**64), "seed: True": lambda: model.initialize(True),
        "load_weights: None": lambda: model.load_weights(None), "save_weights: None": lambda: model.save_weights(None),
        "load_checkpoint: a step": lambda: model.load_checkpoint(WORK, step=1.5), "load_checkpoint: None": lambda: model.load_checkpoint(None),
        "load_checkpoint: no run": lambda: model.load_checkpoint(WORK / "none"),
        "tokens: None": lambda: model.logits(None), "tokens: a mask": lambda: model.logits(np.ma.masked_array(tokens, tokens > 3)),
        "tokens: booleans": lambda: model.logits([True, False]), "tokens: a dict": lambda: model.logits({1: 2}),
        "tokens: surrogates": lambda: model.logits("\udc80"), "tokens: dates": lambda: model.logits(np.array(["2020-01-01"], "M8[D]")),
        "window: a float": lambda: model.score(tokens, window=8.5), "stride: None": lambda: model.score(tokens, stride=None),
        "names: None": lambda: model.activations(tokens, None), "names: a number": lambda: model.activations(tokens, [3]),
        "steps: a float": lambda: model.train(bytes(1000), steps=1.5), "steps: negative": lambda: model.train(bytes(1000), steps=-1),
        "epochs: a float": lambda: model.train(bytes(1000), epochs=0.5), "steps and epochs": lambda: model.train(bytes(1000), steps=1, epochs=1),
        "shuffle: a number": lambda: model.train(bytes(1000), shuffle=1), "epochs of an iterator": lambda: model.train(iter([b"a"]), epochs=2),
        "an iterator shuffled": lambda: model.train(iter([b"a"]), shuffle=True), "start of an iterator": lambda: model.train(iter([b"a"]), start=2),
        "source: None": lambda: model.train(None), "source: a dict": lambda: model.train({}), "source: short": lambda: model.train(b"abc"),
        "source: no text": lambda: model.train([]), "source: floats": lambda: model.train(np.zeros(1000)),
        "source: ends at once": lambda: list(model.train(iter([b"abc"]))),
        "source: ends early": lambda: list(model.train(iter([batch]), steps=2)),
        "generate: tokens": lambda: model.generate(b"a", tokens=1.5), "generate: temperature": lambda: model.generate(b"a", temperature="hot"),
        "generate: None": lambda: model.generate(None), "generate: top_k": lambda: model.generate(b"a", top_k=0.5),
        "generate: top_p": lambda: model.generate(b"a", top_p=2), "generate: min_p": lambda: model.generate(b"a", min_p=None),
        "generate: a penalty": lambda: model.generate(b"a", repetition_penalty=-1), "generate: cached": lambda: model.generate(b"a", cached=1),
        "generate: infinity": lambda: model.generate(b"a", temperature=float("inf")), "generate: 10^400": lambda: model.generate(b"a", min_p=10**400),
        "check: None": lambda: sluice.check(None), "check: bytes": lambda: sluice.check(b"{}"), "check: empty": lambda: sluice.check(""),
        "check: an object": lambda: sluice.check({"name": object()}), "check: NUL": lambda: sluice.check("{\0}"),
        "compile: targets": lambda: sluice.compile(spec, WORK / "t.sla", targets=""), "compile: no target": lambda: sluice.compile(spec, WORK / "t.sla", targets=[]),
        "compile: a number of a target": lambda: sluice.compile(spec, WORK / "t.sla", targets=[3]),
        "compile: precision": lambda: sluice.compile(spec, WORK / "t.sla", precision=""), "compile: f64": lambda: sluice.compile(spec, WORK / "t.sla", precision="f64"),
        "compile: weights": lambda: sluice.compile(spec, WORK / "t.sla", weights="int3"),
        "compile: a budget": lambda: sluice.compile(spec, WORK / "t.sla", memory_budget=1.5),
        "compile: allow_leak": lambda: sluice.compile(spec, WORK / "t.sla", allow_leak="no"),
        "compile: a small budget": lambda: sluice.compile(spec, WORK / "t.sla", memory_budget=1),
    }
    for name, action in wrong.items():
        error = raises(f"argument: {name}", sluice.InputError, action)
        whole = error is not None and error.expected and error.found and error.remedy
        check("its parts", whole and not re.search(r"--[a-z-]+(?![a-z-])(?! of the command line)", error.message), repr(vars(error)) if error else "")
    check("nothing was compiled", not (WORK / "t.sla").exists())
    error = raises("a stream", sluice.InputError, lambda: model.activations(tokens, "nothing"), "stages.1", "nothing")
    handle = model._handle
    small = np.zeros((3, 3), np.float32)
    raises("too small an output", sluice.InputError, lambda: handle.logits(tokens.astype(np.int32), small), "rows", "100")
    raises("too small an output of activations", sluice.InputError,
           lambda: handle.activations("stages.1", tokens.astype(np.int32), small), "rows", "100")
    raises("too small an output of gradients", sluice.InputError, lambda: handle.gradients(batch, small.ravel()), "elements")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        count = len(list(model.train([bytes(1000), b"short"], shuffle=False, epochs=2)))
    check("a short text is a warning", len(caught) == 1 and "1 of 2 texts" in str(caught[0].message), str(caught))
    expected = -(-2 * (999 // model.context) // model.batch_rows)
    check("epochs in order", count == expected, f"{count} {expected}")
    check("integers of NumPy are integers", len(list(model.train(bytes(1000), steps=np.int64(2)))) == 2)


class Exporter:
    """An array of another library, whose DLPack capsule is `capsule` or raises it."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        if isinstance(self.capsule, Exception):
            raise self.capsule
        return self.capsule

    def __dlpack_device__(self):
        return 1, 0


class Subclass(np.ndarray):
    pass


def check_kinds():
    """Arrays of every kind are read as their numbers, or are errors with their parts."""
    model = sluice.load(compile_tiny("vanilla"), threads=1)
    model.initialize(1)
    ids = np.arange(100, dtype=np.int32)
    fixed = ids.copy()
    fixed.flags.writeable = False
    released, recursive = memoryview(b"abc"), []
    released.release()
    recursive.append(recursive)
    expected = model.score(ids)
    for name, tokens in {
            "read-only": fixed, "a subclass": ids.view(Subclass), "big-endian": ids.astype(">i4"), "big-endian and long": ids.astype(">i8"),
            "unsigned": ids.astype(np.uint64), "a negative stride": ids[::-1].copy()[::-1], "a stride": np.repeat(ids, 2)[::2],
            "not aligned": np.frombuffer(b"x" + ids.tobytes(), np.uint8)[1:].view(np.int32), "an iterator": iter(ids.tolist()),
            "a memoryview of int32": memoryview(ids), "a memoryview of int64": memoryview(ids.astype(np.int64)),
            "a memoryview of bytes": memoryview(bytes(ids.tolist())), "a memoryview with a stride": memoryview(bytes(np.repeat(ids, 2).tolist()))[::2],
    }.items():
        check(f"ids: {name}", model.score(tokens) == expected)
    for name, tokens in {
            "objects": ids.astype(object), "no dimension": np.array(5), "a number of NumPy": np.int32(5), "a matrix": np.asmatrix(ids),
            "complex numbers": ids.astype(complex), "half floats": ids.astype(np.float16), "dates": np.zeros(3, "datetime64[D]"),
            "structures": np.zeros(3, [("a", int)]), "a text array": np.array(["a", "b"]), "a memoryview of floats": memoryview(np.zeros(3, np.float32)),
            "a released memoryview": released, "a list within itself": recursive, "a capsule that fails": Exporter(RuntimeError("no")),
            "no capsule": Exporter(None), "a number for a capsule": Exporter(3), "a dict": {1: 2},
    }.items():
        error = raises(f"ids: {name}", sluice.InputError, lambda tokens=tokens: model.score(tokens), "tokens: expected")
        check("its parts", error is not None and error.expected and error.found and error.remedy, repr(error))
    drawn = list(model.generate(memoryview(ids), tokens=20, seed=3))
    check("ids: a prompt of a memoryview of int32", drawn == list(model.generate(ids, tokens=20, seed=3)))


def check_leaks():
    path = ROOT / "test/causality/leaky/attention-bidirectional.json"
    for kind, spec in (("a path", path), ("a dict", json.loads(path.read_text()))):
        verdict = sluice.check(spec)
        check(f"a leak of {kind}: advice and replay", 'write "mask": "causal"' in verdict.text and "replay of the reference: with token 1 changed" in verdict.text
              and verdict.remedy.startswith('write "mask": "causal"'), repr(verdict))
        error = raises(f"a leak of {kind}", sluice.LeakError, lambda: sluice.compile(spec, WORK / "none.sla"), "not causal")
        check("its parts", error.expected and "row 0" in error.found and error.remedy == verdict.remedy and error.line > 0, repr(vars(error)))


PARTS = [(check_arguments, 300), (check_handlers, 300), (check_interrupt_of_c, 120), (check_writes, 120), (check_races, 300), (check_kinds, 120), (check_leaks, 120)]

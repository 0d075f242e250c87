#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the command line, the C interface and the Python package: trial_interface.py ROOT BUILD [--loads N] [SPEC...]
(scripts/trial-interface.sh describes it)."""

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path

import numpy as np

import sluice

SEED, STEPS, TOKENS = 5, 3, 12
CONTRAST = '"op": "contrast"'


def struct(title, /, **fields):
    return type(title, (ctypes.Structure,), {"_fields_": [("size", c_size_t), *fields.items()]})


Spec = struct("Spec", path=c_char_p, text=c_char_p)
Facts = struct("Facts", vocabulary=c_int64, context=c_int64, batch_rows=c_int64, parameters=c_int64, tensors=c_int64, step=c_int64, is_proved=c_int32,
               inputs=c_int64)
Load = struct("Load", device=c_char_p, cpu_target=c_char_p, threads=c_int32)
Tensor = struct("Tensor", name=c_char_p, data=POINTER(c_float), shape=POINTER(c_int64), rank=c_int64, elements=c_int64)
Step = struct("Step", loss=c_double, gradient_norm=c_double)
Evaluation = struct("Evaluation", window=c_int64, stride=c_int64, nats=c_double, tokens=c_int64)
Part = struct("Part", role=c_int32, name=c_char_p, path=c_char_p, ids=c_void_p, numbers=c_void_p, count=c_int64, width=c_int64)
Options = struct("Options", images=c_char_p, tokenizer=c_char_p, is_held_out=c_int32, in_order=c_int32)
Sampling = struct("Sampling", tokens=c_int64, temperature=c_double, top_k=c_int64, top_p=c_double, min_p=c_double, repetition_penalty=c_double,
                  seed=ctypes.c_uint64, sample=c_int64, ids=c_int64, no_cache=c_int32)
Search = struct("Search", beam=c_int64, tokens=c_int64, length_penalty=c_double, min_tokens=c_int64, no_repeat=c_int64, ids=c_int64, end=c_int32,
                no_cache=c_int32)
Found = struct("Found", score=c_double, count=c_int64, is_finished=c_int32)


class Position(ctypes.Structure):
    _fields_ = [("epoch", c_int64), ("index", c_int64)]


class Rejected(Exception):
    """A function of the C interface failed."""


class Library:
    """The functions of libsluice. A status that is neither OK nor END raises Rejected."""

    def __init__(self, path):
        self._library = ctypes.CDLL(str(path))
        self._library.sluice_last_error.restype = c_void_p

    def __getattr__(self, name):
        function = getattr(self._library, f"sluice_{name}")
        void = name.startswith(("free_", "init_", "release_"))

        def call(*arguments):
            status = function(*arguments)
            if not void and status not in (0, 6):
                message = ctypes.cast(self._library.sluice_last_error() + 8, POINTER(c_char_p)).contents.value
                raise Rejected(message.decode())
            return status

        return call


def made(kind, /, **fields):
    return kind(size=ctypes.sizeof(kind), **fields)


def array(numbers, kind):
    return numbers.ctypes.data_as(POINTER(kind))


class CModel:
    """A model of the C interface."""

    def __init__(self, library, path):
        self.library, self.handle = library, c_void_p()
        library.load(str(path).encode(), byref(made(Load, device=b"cpu", threads=2)), byref(self.handle))
        self.facts = made(Facts)
        library.get_facts(self.handle, byref(self.facts))

    def open(self, data, held_out=False, lines=False, text=True):
        """Opens the files of `data`: the text, and the inputs by name."""
        parts = [(0, None, data["tokens"])] if text else []
        parts += [(1, name, path) for name, path in data.items() if name != "tokens"]
        all_parts = (Part * len(parts))(*[made(Part, role=role, name=name and name.encode(), path=str(path).encode()) for role, name, path in parts])
        handle = c_void_p()
        options = made(Options, is_held_out=int(held_out))
        getattr(self.library, "open_line_files" if lines else "open_data")(self.handle, all_parts, c_int64(len(parts)), byref(options), byref(handle))
        return handle

    def train(self, data, steps):
        handle, position, losses = self.open(data), Position(0, 0), []
        for _ in range(steps):
            step = made(Step)
            self.library.train_data(self.handle, handle, byref(position), byref(step))
            losses.append((step.loss, step.gradient_norm))
        self.library.free_data(handle)
        return losses

    def gradients(self, data):
        handle, sizes = self.open(data), []
        for index in range(self.facts.tensors):
            tensor = made(Tensor)
            self.library.describe_tensor(self.handle, c_int64(index), byref(tensor))
            sizes.append(tensor.elements)
        numbers = np.empty(sum(sizes), np.float32)
        self.library.copy_data_gradients(self.handle, handle, byref(Position(0, 0)), array(numbers, c_float), c_int64(len(numbers)), None)
        self.library.free_data(handle)
        return numbers

    def evaluate(self, data):
        handle, result = self.open(data, held_out=True), made(Evaluation)
        self.library.evaluate_data(self.handle, handle, byref(result))
        self.library.free_data(handle)
        return result.nats, result.tokens

    def logits(self, data):
        handle, count = self.open(data, held_out=True), c_int64()
        self.library.count_data_rows(self.handle, handle, byref(count))
        rows = np.empty((count.value, self.facts.vocabulary), np.float32)
        self.library.compute_data_logits(self.handle, handle, array(rows, c_float))
        self.library.free_data(handle)
        return rows

    def rows(self, name, tokens):
        count, width = c_int64(), c_int64()
        self.library.get_activation_shape(self.handle, name.encode(), c_int64(len(tokens)), byref(count), byref(width))
        rows = np.empty((count.value, width.value), np.float32)
        self.library.compute_activations(self.handle, name.encode(), array(tokens, c_int32), c_int64(len(tokens)), array(rows, c_float))
        return rows

    def generate(self, prompt, lines):
        sampling, generator, drawn, token = Sampling(), c_void_p(), [], c_int32()
        self.library.init_sampling(byref(sampling), c_size_t(ctypes.sizeof(sampling)))
        sampling.tokens, sampling.seed = TOKENS, 3
        text = (self.handle, array(prompt, c_int32), c_int64(len(prompt)))
        if lines is None:
            self.library.generate(*text, byref(sampling), byref(generator))
        else:
            sampling.ids = min(256, self.facts.vocabulary)
            self.library.generate_line(self.handle, lines, c_int64(0), *text[1:], byref(sampling), byref(generator))
        while self.library.next(generator, byref(token)) == 0:
            drawn.append(token.value)
        self.library.free_generator(generator)
        return drawn

    def search(self, prompt, lines):
        options, found, written = Search(), made(Found), np.empty(TOKENS, np.int32)
        self.library.init_search(byref(options), c_size_t(ctypes.sizeof(options)))
        options.tokens, options.beam = TOKENS, 3
        text, into = (array(prompt, c_int32), c_int64(len(prompt))), (array(written, c_int32), c_int64(TOKENS), byref(found))
        if lines is None:
            self.library.search(self.handle, *text, byref(options), *into)
        else:
            options.ids = min(256, self.facts.vocabulary)
            self.library.search_line(self.handle, lines, c_int64(0), *text, byref(options), *into)
        return [int(each) for each in written[: found.count]], found.score, bool(found.is_finished)

    def close(self):
        self.library.free_model(self.handle)


def read_weights(path):
    """Returns the bytes of each tensor of a safetensors file."""
    content = Path(path).read_bytes()
    length = int.from_bytes(content[:8], "little")
    header, start = json.loads(content[8 : 8 + length]), 8 + length
    return {name: content[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]] for name, entry in header.items() if name != "__metadata__"}


def make_lines(count):
    rng = np.random.default_rng(1)
    return [bytes(rng.choice(list(b"abcdefgh "), rng.integers(2, 13)).astype(np.uint8)) for _ in range(count)]


def make_data(name, spec, model, work):
    """Writes the files of a model's data. Returns their paths by name, and the same data as arrays for Python."""
    rng = np.random.default_rng(2)
    kinds = model.inputs
    if "lines" in kinds.values():
        source = make_lines(2 * model.batch_rows + 1)
        arrays = {"tokens": source, "source": source}
        if "tag" in kinds:
            arrays["tag"] = [np.arange(len(line)) % 4 for line in source]
        if "links" in kinds:
            connects_words = spec["inputs"]["links"]["on"] != "source"
            ends = [sum(byte in b" \t" for byte in line[:-1]) if connects_words else len(line) - 1 for line in source]
            arrays["links"] = [[(row, row + 1) for row in range(last)] for last in ends]
        texts = {key: b"".join((" ".join(f"{u}-{v}" for u, v in line) if key == "links" else "".join(map(str, line))).encode() + b"\n"
                               if key in ("links", "tag") else line + b"\n" for line in value) for key, value in arrays.items()}
        paths = {key: work / f"{name}.{key}" for key in texts}
        for key, path in paths.items():
            path.write_bytes(texts[key])
        return paths, arrays
    arrays = {"tokens": rng.integers(0, model.vocabulary, 4 * model.batch_rows * model.context, dtype=np.int32)}
    for key in kinds:
        rows = len(arrays["tokens"])
        is_target = spec["inputs"][key]["role"] == "target"
        arrays[key] = rng.dirichlet(np.ones(model.vocabulary), rows).astype(np.float32) if is_target else rng.integers(0, 3, rows).astype(np.float32)
    paths = {key: work / f"{name}.{key}.npy" for key in arrays}
    for key, path in paths.items():
        np.save(path, arrays[key])
    return paths, arrays


class Trial:
    def __init__(self, root, build, loads, work):
        self.root, self.program, self.loads, self.work = root, build / "bin/sluice", loads, work
        self.library, self.passed, self.failed = Library(build / "lib/libsluice.so"), 0, 0

    def run(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        return done.stdout

    def compare(self, what, *actions):
        """Compares results, bit for bit. An action may be rejected if all are."""
        results = []
        for action in actions:
            try:
                results.append(action())
            except (Rejected, sluice.Error, RuntimeError) as error:
                results.append(f"rejected: {error}")
        rejected = [isinstance(each, str) and each.startswith("rejected: ") for each in results]
        same = all(rejected) or (not any(rejected) and all(self.equals(results[0], each) for each in results[1:]))
        self.passed += same
        self.failed += not same
        note = f" (all reject it: {results[0][10:120]})" if all(rejected) else ""
        print(f"{'same' if same else 'DIFFERENT'} {what}{note}" + ("" if same else f"\n  {[str(each)[:300] for each in results]}"), flush=True)

    @staticmethod
    def equals(a, b):
        if isinstance(a, np.ndarray):
            return isinstance(b, np.ndarray) and a.shape == b.shape and a.tobytes() == b.tobytes()
        return a == b

    def try_model(self, spec):
        begin, name, content, work = time.monotonic(), spec.stem, json.loads(spec.read_text()), self.work
        files = [work / f"{name}.{who}.sla" for who in ("line", "c", "python")]
        c_spec = made(Spec, path=str(spec).encode())

        def check_c():
            text = c_char_p()
            self.library.check(byref(c_spec), byref(text))
            return text.value.decode()

        def compile_c():
            self.library.compile(byref(c_spec), None, str(files[1]).encode())
            return files[1].read_bytes()

        def compile_python():
            sluice.compile(spec, files[2])
            return files[2].read_bytes()

        def compile_line():
            self.run("compile", spec, "-o", files[0])
            return files[0].read_bytes()

        self.compare(f"{name}: check", lambda: json.loads(self.run("check", spec, "--json"))["verdict"] == "proved",
                     lambda: check_c() != "", lambda: sluice.check(spec).proved)
        self.compare(f"{name}: the text of the proof", check_c, lambda: sluice.check(spec).text)
        self.compare(f"{name}: compile", compile_line, compile_c, compile_python)
        model, own = sluice.load(files[0], threads=2), CModel(self.library, files[0])
        self.compare(f"{name}: facts", lambda: (model.vocabulary, model.context, model.batch_rows, model.parameter_count, len(model.inputs)),
                     lambda: (own.facts.vocabulary, own.facts.context, own.facts.batch_rows, own.facts.parameters, own.facts.inputs))
        self.compare_results(name, content, spec, files[0], model, own)
        own.close()
        del model
        self.try_loads(name, files[0])
        print(f"# {name}: {time.monotonic() - begin:.0f} s", flush=True)

    def compare_results(self, name, content, spec, artifact, model, own):
        paths, arrays = make_data(name, content, model, self.work)
        inputs = {key: value for key, value in arrays.items() if key != "tokens"} or None
        lines = "lines" in model.inputs.values()
        flags = [text for key, path in paths.items() if key != "tokens" for text in ("--input", f"{key}={path}")]
        out, weights = self.work / f"{name}.run", [self.work / f"{name}.{who}.safetensors" for who in ("c", "python")]
        for each in (model.initialize, lambda seed: self.library.initialize(own.handle, c_int64(seed))):
            each(SEED)
        self.compare(f"{name}: gradients (C and Python)", lambda: own.gradients(paths),
                     lambda: np.concatenate([each.ravel() for each in model.gradients(paths["tokens"], inputs=None if inputs is None else
                                                                                      {key: paths[key] for key in inputs}).values()]))

        def train_line():
            self.run("train", artifact, "--data", paths["tokens"], *flags, "--seed", SEED, "--steps", STEPS, "--log-every", 1, "--out", out, "-j", 2)
            logged = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
            return [(line.get("objective", line["loss"]), line["grad_norm"]) for line in logged]

        self.compare(f"{name}: {STEPS} training steps", train_line, lambda: own.train(paths, STEPS),
                     lambda: [tuple(step) for step in model.train(arrays["tokens"], steps=STEPS, inputs=inputs)])
        self.library.save_weights(own.handle, str(weights[0]).encode())
        model.save_weights(weights[1])
        self.compare(f"{name}: weights", lambda: read_weights(next((out / "checkpoints").glob("*/weights.safetensors"))),
                     *[lambda path=path: read_weights(path) for path in weights])
        # Evaluation rejects numbers that training alone reads.
        scored = paths if lines else {"tokens": paths["tokens"]}
        scored_inputs, scored_flags = (inputs, flags) if lines else (None, [])

        def eval_line():
            told = json.loads(self.run("eval", artifact, "--weights", out, "--data", paths["tokens"], *scored_flags, "--json", "-j", 2))
            return told["nats"], sum(told["chunks"].values()) if "chunks" in told else told["tokens"]

        self.compare(f"{name}: evaluation", eval_line, lambda: own.evaluate(scored), lambda: model.score(arrays["tokens"], inputs=scored_inputs)[:2])

        def array_line(*more):
            self.run("logits", artifact, "--weights", out, "--data", paths["tokens"], *scored_flags, "-o", self.work / "rows.npy", "--force", "-j", 2, *more)
            return np.load(self.work / "rows.npy")

        self.compare(f"{name}: logits", array_line, lambda: own.logits(scored), lambda: model.logits(arrays["tokens"], inputs=scored_inputs))
        tokens = np.arange(4, dtype=np.int32) if lines else arrays["tokens"]  # rows of lines are computed by none of the three
        for number in range(1 if lines else len(content["stages"])):
            stage = f"stages.{number}"
            self.compare(f"{name}: rows of {stage}", lambda: array_line("--stream", stage), lambda: own.rows(stage, tokens),
                         lambda: model.activations(tokens, stage)[stage])
        self.compare_texts(name, artifact, out, model, own, paths, arrays, flags if lines else None)

    def compare_texts(self, name, artifact, out, model, own, paths, arrays, flags):
        inputs = None
        if flags is None:
            prompt = np.ascontiguousarray(arrays["tokens"][: model.context // 2])
            begin, given = ["--prompt-tokens", " ".join(map(str, prompt))], None
        else:
            prompt, begin = np.frombuffer(b"ab", np.uint8).astype(np.int32), ["--prompt", "ab", *flags]
            try:
                given = own.open(paths, lines=True, text=False)
            except Rejected as error:
                self.compare(f"{name}: inputs of a text", lambda: str(error), lambda: "no error")
                return
            inputs = {key: value for key, value in arrays.items() if key != "tokens"}
        python = {} if inputs is None else {"inputs": inputs, "line": 0}
        start = prompt if flags is None else b"ab"

        def generate_line():
            told = self.run("generate", artifact, "--weights", out, *begin, "--tokens", TOKENS, "--seed", 3, "--no-echo", "--json", "-j", 2)
            told = json.loads(told.splitlines()[0])
            return told["ids"] if flags is None else told["text"]

        def spell(ids):
            return list(ids) if flags is None else bytes(ids).decode(errors="replace")

        def search_line():
            told = json.loads(self.run("generate", artifact, "--weights", out, *begin, "--tokens", TOKENS, "--beam", 3, "--no-echo", "--json", "-j", 2).splitlines()[0])
            return told["ids"] if flags is None else told["text"], told["score"], told["stop"] == "stop"

        def spell_found(ids, score, finished):
            return spell(ids), score, finished

        self.compare(f"{name}: generate", generate_line, lambda: spell(own.generate(prompt, given)),
                     lambda: spell(model.generate(start, tokens=TOKENS, seed=3, **python)))
        self.compare(f"{name}: beam search", search_line, lambda: spell_found(*own.search(prompt, given)),
                     lambda: spell_found(*model.search(start, tokens=TOKENS, beam=3, **python)))
        if given is not None:
            self.library.free_lines(given)

    def try_loads(self, name, artifact):
        """Loads an artifact again and again from C and from Python."""

        def load_c():
            CModel(self.library, artifact).close()

        for who, load in (("C", load_c), ("Python", lambda: sluice.load(artifact, threads=1))):
            sizes = []
            for number in range(self.loads):
                load()
                if number in (self.loads * 3 // 10, self.loads - 1):
                    gc.collect()
                    sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
            if sizes:
                self.compare(f"{name}: {self.loads} loads from {who} with flat memory", lambda: sizes[-1] - sizes[0] < 8 << 20 or str(sizes), lambda: True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("build", type=Path)
    parser.add_argument("--loads", type=int, default=1000)
    parser.add_argument("specs", type=Path, nargs="*")
    arguments = parser.parse_intermixed_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as work:
        trial = Trial(arguments.root, arguments.build, arguments.loads, Path(work))
        for spec in arguments.specs or sorted((arguments.root / "models/tiny").glob("*.json")):
            trial.try_model(spec)
    print(f"{trial.passed} same, {trial.failed} different")
    return int(trial.failed > 0)


sys.exit(main())

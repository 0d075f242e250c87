# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks of the package sluice with named inputs: the same bits as the command line on files with the same lines, and wrong inputs."""

import json
import warnings

import numpy as np
from python_checks import WORK, check, compile_tiny, raises, run

import sluice


def make_lines(count, seed):
    """Returns lines of 2 to 12 letters and spaces."""
    rng = np.random.default_rng(seed)
    return [bytes(rng.choice(list(b"abcdefgh "), rng.integers(2, 13)).astype(np.uint8)) for _ in range(count)]


def make_inputs(name, source):
    """Returns the inputs of a tiny model, and their files for the command line."""
    inputs, files = {"source": source}, {"source": b"".join(line + b"\n" for line in source)}
    if name == "words":
        inputs["tag"] = [np.arange(len(line)) % 4 for line in source]
        files["tag"] = "".join("".join(map(str, tags)) + "\n" for tags in inputs["tag"]).encode()
    if name in ("umst", "graph"):
        spaces = {"umst": b" \t", "graph": b""}[name]
        ends = [sum(byte in spaces for byte in line[:-1]) if name == "umst" else len(line) - 1 for line in source]
        inputs["links"] = [[(row, row + 1) for row in range(last)] for last in ends]
        files["links"] = "".join(" ".join(f"{u}-{v}" for u, v in line) + "\n" for line in inputs["links"]).encode()
    return inputs, files


def write_files(label, text, files):
    """Writes the files of a text and of inputs. Returns the flags that name them."""
    data = WORK / f"{label}.text"
    data.write_bytes(b"".join(line + b"\n" for line in text))
    flags = []
    for key, content in files.items():
        path = WORK / f"{label}.{key}"
        path.write_bytes(content)
        flags += ["--input", f"{key}={path}"]
    return data, flags


def compare_lines(name):
    """Compares training, evaluation, logits and generation with the command line."""
    artifact = compile_tiny(name)
    model = sluice.load(artifact, threads=2)
    lines = make_lines(3 * model.batch_rows + 1, 1)
    inputs, files = make_inputs(name, lines)
    data, flags = write_files(name, lines, files)
    out = WORK / f"{name}.run"
    run("train", artifact, "--data", data, *flags, "--seed", 4, "--steps", 7, "--out", out, "-j", 2)
    told = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    model.initialize(4)
    own = [tuple(step) for step in model.train(lines, epochs=2, inputs=inputs)]
    check(f"{name}: the same losses over epochs", own == [(line["loss"], line["grad_norm"]) for line in told], f"{own} {told}")
    result = json.loads(run("eval", artifact, "--weights", out, "--data", data, *flags, "--json", "-j", 2))
    score = model.score(lines, inputs=inputs)
    check(f"{name}: eval", (score.nats, score.tokens) == (result["nats"], result["tokens"]), f"{score} {result}")
    text = lines[:4]
    some = {key: values[:4] for key, values in inputs.items()}
    data, flags = write_files(f"{name}.some", text, {key: b"".join(content.splitlines(True)[:4]) for key, content in files.items()})
    rows = WORK / f"{name}.rows.npy"
    run("logits", artifact, "--weights", out, "--data", data, *flags, "-o", rows, "-j", 2)
    check(f"{name}: logits", np.array_equal(model.logits(text, inputs=some), np.load(rows)))
    for temperature in (0.0, 1.0):
        written = run("generate", artifact, "--weights", out, *flags, "--temperature", temperature, "--seed", 6, "--prompt", "ab",
                      "--no-echo", "--json", "-j", 2)
        told = [json.loads(line)["text"] for line in written.splitlines()]
        drawn = [bytes(model.generate(b"ab", temperature=temperature, seed=6, inputs={key: [value[i]] for key, value in some.items()}))
                 for i in range(len(text))]
        check(f"{name}: generate at {temperature}", [each.decode(errors="replace") for each in drawn] == told, f"{drawn} {told}")
    if name == "copy":
        told = [json.loads(line) for line in run("generate", artifact, "--weights", out, *flags, "--prompt", "ab", "--beam", 3,
                                                 "--no-echo", "--json", "-j", 2).splitlines()]
        found = [model.search(b"ab", beam=3, inputs={key: [value[i]] for key, value in some.items()}) for i in range(len(text))]
        check(f"{name}: search", [(bytes(each.tokens).decode(errors="replace"), each.score, each.finished) for each in found]
              == [(line["text"], line["score"], line["stop"] == "stop") for line in told], f"{found} {told}")
    return model, lines, inputs


def check_lines():
    for name in ("words", "graph", "given-words"):
        compare_lines(name)
    model, lines, inputs = compare_lines("copy")
    batch, given = lines[: model.batch_rows], {"source": lines[: model.batch_rows]}
    model.initialize(2)
    gradients = model.gradients(batch, inputs=given)
    norm = np.sqrt(sum(float((array.astype(np.float64) ** 2).sum()) for array in gradients.values()))
    step = model.train_step(batch, inputs=given)
    check("lines: gradients of a step", abs(norm - step.gradient_norm) < 1e-5 * norm, f"{norm} {step}")
    model.initialize(2)
    ordered = list(model.train(lines, steps=2, shuffle=False, inputs=inputs))
    check("lines: in order", ordered[0] == step and ordered[1] != step, f"{ordered} {step}")
    model.initialize(2)
    everything = list(model.train(lines, steps=4, inputs=inputs))
    model.initialize(2)
    begun = list(model.train(lines, steps=2, inputs=inputs)) + list(model.train(lines, steps=2, start=2, inputs=inputs))
    check("lines: continued", begun == everything, f"{begun} {everything}")
    # Another id ends lines: the ids of a tokenizer, whose newline is not 10.
    ids = [np.frombuffer(line, np.uint8) for line in batch]
    ends = model.score(ids, inputs={"source": ids}, line_end=7)
    check("lines: another line end", ends.tokens == sum(map(len, batch)) + len(batch), str(ends))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.score([b"a" * 40], inputs={"source": [b"b"]})
    check("lines: a cut line is reported", ["cut 1 of 1 lines of the text, longer than 16 tokens" in str(w.message) for w in caught] == [True],
          str([str(w.message) for w in caught]))


def check_wrong_lines():
    model = sluice.load(compile_tiny("copy"), threads=2)
    model.initialize(1)
    text = [b"one", b"two"]

    def score(inputs, tokens=text, **options):
        return lambda: model.score(tokens, inputs=inputs, **options)

    raises("no inputs", sluice.InputError, lambda: model.score(b"one"), "source", "inputs=")
    raises("a missing input", sluice.InputError, score({}), 'expected lines of "source"', "found none")
    raises("another input", sluice.InputError, score({"source": text, "sauce": text}), 'found "sauce"')
    raises("another number of lines", sluice.InputError, score({"source": text[:1]}), "tokens", ", 2, found 1")
    error = raises("an empty line", sluice.InputError, score({"source": [b"one", b""]}), "inputs.source:2", "empty")
    check("its parts", error.line == 2 and error.file == "" and error.found == "an empty one" and error.remedy != "", repr(vars(error)))
    raises("an empty line of the text", sluice.InputError, score({"source": text}, [b"", b"a"]), "tokens:1")
    error = raises("an id beyond the vocabulary", sluice.InputError, score({"source": [[1, 2], [3, 256]]}), "256 at index 1")
    check("its place", error.line == 2 and error.expected == "ids from 0 to 255", repr(vars(error)))
    raises("a negative id", sluice.InputError, score({"source": [[1], [-1]]}), "found -1")
    raises("a line end in a line", sluice.InputError, score({"source": [b"a\nb", b"c"]}), "id that ends lines", "at index 1")
    raises("a line end beyond the vocabulary", sluice.InputError, score({"source": text}, line_end=256), "line_end", "256")
    raises("no lines", sluice.InputError, score({"source": []}, []), "at least one line")
    raises("one text", sluice.InputError, score({"source": b"one"}), "a list of lines")
    raises("no dict", sluice.InputError, score([text]), "a dict of lists")
    raises("floats", sluice.InputError, score({"source": [[1.5], [2.0]]}), "inputs.source, line 1", "integers")
    raises("pairs", sluice.InputError, score({"source": [[(1, 2)], [(3, 4)]]}), "found pairs")
    raises("a window", sluice.InputError, score({"source": text}, window=8), "window")
    raises("few lines for a step", sluice.InputError, lambda: model.train_step(text, inputs={"source": text}), "expected 16 lines", "found 2")
    raises("activations", sluice.InputError, lambda: model.activations(b"abc", ["memory"]), "source", "logits")
    raises("two lines to generate", sluice.InputError, lambda: model.generate(b"", inputs={"source": text}), "one line", "2 lines")
    raises("an end of a line", sluice.InputError, lambda: model.search(b"", end=3, inputs={"source": [b"a"]}), "end", "-1")
    raises("a long prompt", sluice.InputError, lambda: model.generate(b"a" * 16, inputs={"source": [b"a"]}), "context of 16", "16")
    for order in ("order_lines", "order_rows"):
        places = [np.empty(5, np.int64) for _ in range(2)]
        count = 3 if order == "order_lines" else np.array([40])
        raises(f"{order} beyond the last number", sluice.InputError,
               lambda: getattr(model._handle, order)(count, 2**63 - 1, *places[: 1 if order == "order_lines" else 2]), "first: expected a row")
    graph = sluice.load(compile_tiny("graph"), threads=2)
    graph.initialize(1)
    raises("ids for edges", sluice.InputError, lambda: graph.score(text, inputs={"source": text, "links": [[1], [2]]}), "found ids")
    raises("an edge beyond its line", sluice.InputError,
           lambda: graph.score(text, inputs={"source": text, "links": [[(0, 1)], [(1, 3)]]}), "inputs.links:2", "1-3")
    words = sluice.load(compile_tiny("words"), threads=2)
    words.initialize(1)
    raises("a tag beyond its vocabulary", sluice.InputError,
           lambda: words.score(text, inputs={"source": text, "tag": [[0, 1, 2], [0, 4, 0]]}), "inputs.tag:2", "4 at index 1")
    raises("too few tags", sluice.InputError,
           lambda: words.score(text, inputs={"source": text, "tag": [[0, 1, 2], [0, 1]]}), "inputs.tag:2", "expected 3 tokens")
    raises("bits that follow", sluice.InputError,
           lambda: words.score(text, inputs={"source": text, "tag": text, "split": text}), '"split", which follows')
    alone = sluice.load(compile_tiny("vanilla"), threads=2)
    alone.initialize(1)
    raises("a model without inputs", sluice.InputError, lambda: alone.score(text, inputs={"source": text}), "only input is its tokens")


PARTS = [(check_lines, 300), (check_wrong_lines, 120)]

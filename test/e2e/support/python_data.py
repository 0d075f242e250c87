# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks of the package sluice with labels, numbers, images, CoNLL-U and files: the same bits as the command line, and wrong data."""

import json
import warnings
from pathlib import Path

import numpy as np
from python_checks import TINY, WORK, check, compile_tiny, raises, run
from python_lines import make_lines

import sluice

LABELLED = {
    "sluice": 1, "vocabulary": 256, "context": 24, "batch": 3, "width": 16, "seed": 4, "defaults": {"heads": 2, "feed_forward": 20},
    "stages": [{"op": "embedding"}, {"op": "layer", "to": "fine"}, {"op": "boundaries", "name": "words", "rule": "labels", "predictor": 8},
               {"op": "shorten", "segments": "words"}, {"op": "shift", "by": 1, "start": "null"}, {"op": "layer"},
               {"op": "upsample", "segments": "words", "by": 0}, {"op": "add", "with": "fine"}, {"op": "head"}],
    "training": {"learning_rate": 0.01, "schedule": {"kind": "constant", "warmup": 0}},
}


def compile_spec(name, spec):
    path = WORK / f"{name}.sla"
    sluice.compile(spec, path)
    return sluice.load(path, threads=2)


def write(name, content):
    path = WORK / name
    path.write_bytes(content)
    return path


def train_told(name, *flags, steps):
    """Trains by the command line. Returns the losses and norms of all steps."""
    out = WORK / f"data-{name}.run"
    run("train", WORK / f"{name}.sla", *flags, "--seed", 7, "--steps", steps, "--log-every", 1, "--out", out, "-j", 2)
    return [(line.get("objective", line["loss"]), line["grad_norm"]) for line in map(json.loads, (out / "metrics.jsonl").read_text().splitlines())]


def eval_told(name, *flags):
    return json.loads(run("eval", WORK / f"{name}.sla", "--weights", WORK / f"data-{name}.run", *flags, "--json", "-j", 2))


def check_training(name, model, told, source, **data):
    """Compares a training on arrays or files with the command line's; it may begin in the middle."""
    model.initialize(7)
    own = [tuple(step) for step in model.train(source, steps=len(told), **data)]
    check(f"{name}: the same losses", own == told, f"{own} {told}")
    model.initialize(7)
    begun = [next(model.train(source, steps=1, **data)), *model.train(source, steps=len(told) - 1, start=1, **data)]
    check(f"{name}: continued", list(map(tuple, begun)) == told, f"{begun} {told}")


def check_eval(name, model, told, tokens, **data):
    score = model.score(tokens, **data)
    check(f"{name}: eval", (score.nats, score.tokens) == (told["nats"], told["tokens"]) and score.losses == told.get("losses", {}), f"{score} {told}")


def check_labels():
    model = compile_spec("labelled", LABELLED)
    check("labels: an input of the model", model.inputs == {"words": "labels"}, str(model.inputs))
    texts = [b" ".join(make_lines(90, seed)) for seed in (1, 2)]
    bits = [np.array([byte == 32 for byte in text], np.int32) for text in texts]
    files = [write(f"labelled.{i}", text) for i, text in enumerate(texts)]
    labels = [write(f"labelled.{i}.bits", bytes(48 + each for each in ends)) for i, ends in enumerate(bits)]
    flags = [text for i in range(2) for text in ("--data", files[i], "--labels", f"words={labels[i]}")]
    told = train_told("labelled", *flags, steps=6)
    check_training("labels", model, told, texts, labels={"words": bits})
    check_training("files of labels", model, told, files, labels={"words": labels})
    check_training("a file of labels and an array", model, told, texts, labels={"words": [bits[0], labels[1]]})
    told = eval_told("labelled", "--data", files[0], "--labels", f"words={labels[0]}")
    check("labels: their loss", "words.labels" in told["losses"], str(told))
    check_eval("labels", model, told, texts[0], labels={"words": bits[0]})
    check_eval("files of labels", model, told, files[0], labels={"words": labels[0]})
    check_eval("without labels", model, eval_told("labelled", "--data", files[0]), texts[0])
    rows = WORK / "labelled.npy"
    run("logits", WORK / "labelled.sla", "--weights", WORK / "data-labelled.run", "--data", files[0], "-o", rows, "-j", 2)
    check("labels: logits", np.array_equal(model.logits(texts[0]), np.load(rows)))
    drawn = run("generate", WORK / "labelled.sla", "--weights", WORK / "data-labelled.run", "--prompt", "ab", "--tokens", 20, "--seed", 3, "--no-echo", "-j", 2)
    check("labels: generate", bytes(model.generate(b"ab", tokens=20, seed=3)).decode(errors="replace") == drawn.rstrip("\n"), drawn)
    batch = np.stack([np.frombuffer(texts[0], np.uint8)[i * 24 : i * 24 + 25] for i in range(3)])
    ends = (batch == 32).astype(np.int32)
    model.initialize(2)
    gradients = model.gradients(batch, labels={"words": ends})
    norm = np.sqrt(sum(float((array.astype(np.float64) ** 2).sum()) for array in gradients.values()))
    step = model.train_step(batch, labels={"words": ends})
    check("labels: gradients of a step", abs(norm - step.gradient_norm) < 1e-5 * norm, f"{norm} {step}")
    model.initialize(2)
    check("labels: in order", next(model.train(texts[0][:73], shuffle=False, labels={"words": bits[0][:73]})) == step)
    model.initialize(2)
    check("labels: are read", model.train_step(batch, labels={"words": 1 - ends}) != step)
    raises("no labels", sluice.InputError, lambda: model.train_step(batch), 'the labels "words"', "labels=")
    raises("no labels in training", sluice.InputError, lambda: model.train(files[0]), "labels words=FILE", "0 or 1")
    raises("other labels", sluice.InputError, lambda: model.train(texts, labels={"words": bits, "lines": bits}), '"lines"')
    raises("few labels", sluice.InputError, lambda: model.train(texts, labels={"words": bits[:1]}), "for each text", "found 1")
    error = raises("short labels", sluice.InputError, lambda: model.train(texts, labels={"words": [bits[0], bits[1][1:]]}), "as many labels as tokens[1]")
    check("its parts", error.file == "" and error.found == str(len(bits[1]) - 1) and error.remedy != "", repr(vars(error)))
    raises("a label of 2", sluice.InputError, lambda: model.train(texts, labels={"words": [bits[0], bits[1] + 1]}), "labels.words[1]", "labels 0 and 1", "found 2")
    raises("floats as labels", sluice.InputError, lambda: model.train(texts, labels={"words": [bits[0] * 0.5, bits[1]]}), "labels.words", "integers")
    raises("rows of a step", sluice.InputError, lambda: model.train_step(batch[:2], labels={"words": ends[:2]}), "3 rows", "found 2")
    raises("a missing file", sluice.InputError, lambda: model.train(WORK / "none.txt", labels={"words": labels[0]}), "none.txt")
    raises("a damaged file of labels", sluice.InputError, lambda: model.train(files[0], labels={"words": files[0]}), "expected the label 0 or 1")
    raises("an iterator", sluice.InputError, lambda: model.train(iter(texts), labels={"words": bits}), "tokens")
    vanilla = sluice.load(compile_tiny("vanilla"), threads=2)
    vanilla.initialize(1)
    raises("labels of a model without", sluice.InputError, lambda: vanilla.score(b"text", labels={"words": [0, 1, 0, 1]}), "none of", '"words"')


def check_numbers():
    compile_tiny("distill")
    model = sluice.load(WORK / "distill.sla", threads=2)
    rng = np.random.default_rng(3)
    text = rng.integers(0, model.vocabulary, 400, dtype=np.int32)
    teacher = rng.dirichlet(np.ones(model.vocabulary), len(text)).astype(np.float32)
    mask = rng.integers(0, 3, len(text)).astype(np.float32)
    files = {"tokens": text, "teacher": teacher, "mask": mask}
    for name, array in files.items():
        np.save(WORK / f"distill.{name}.npy", array)
    paths = {name: WORK / f"distill.{name}.npy" for name in files}
    flags = ("--data", paths["tokens"], "--input", f"teacher={paths['teacher']}", "--input", f"mask={paths['mask']}")
    check("numbers: inputs of the model", model.inputs == {"teacher": "numbers", "mask": "numbers"}, str(model.inputs))
    told = train_told("distill", *flags, steps=4)
    check_training("numbers", model, told, text, inputs={"teacher": teacher, "mask": mask.astype(np.float64)})
    check_training("files of numbers", model, told, paths["tokens"], inputs={"teacher": paths["teacher"], "mask": paths["mask"]})
    check_eval("numbers", model, eval_told("distill", "--data", paths["tokens"]), text)
    rows = WORK / "distill.rows.npy"
    run("logits", WORK / "distill.sla", "--weights", WORK / "data-distill.run", "--data", paths["tokens"], "-o", rows, "-j", 2)
    check("numbers: logits", np.array_equal(model.logits(text), np.load(rows)))
    raises("numbers: a missing input", sluice.InputError, lambda: model.train(text, inputs={"mask": mask}), "teacher")
    raises("numbers: a shape", sluice.InputError, lambda: model.train(text, inputs={"mask": mask[1:], "teacher": teacher}), "inputs.mask", "a row for each token", "(399,)")
    raises("numbers: negative", sluice.InputError, lambda: model.train(text, inputs={"mask": -1 - mask, "teacher": teacher}), "inputs.mask", "at least 0")
    raises("numbers: no distribution", sluice.InputError, lambda: model.train(text, inputs={"mask": mask, "teacher": 2 * teacher}), "inputs.teacher", "add up to 1")
    raises("numbers: tokens alone", sluice.InputError, lambda: model.train(text, steps=1).__next__(), "inputs=")


def check_images():
    spec = {**json.loads((TINY / "vanilla.json").read_text()), "context": 48}
    model = compile_spec("images", spec)
    pixels = np.random.default_rng(5).integers(0, 256, (11, 4, 4, 3), dtype=np.uint8)
    data = write("images.bin", pixels.tobytes())
    told = train_told("images", "--data", data, "--images", "4x4x3", steps=4)
    check_training("images", model, told, pixels, images="4x4x3")
    check_training("a file of images", model, told, data, images="4x4x3")
    told = eval_told("images", "--data", data, "--images", "4x4x3")
    check_eval("images", model, told, pixels, images="4x4x3")
    check_eval("a file of images", model, told, data, images="4x4x3")
    check("images: their bytes are predicted", model.logits(pixels[:2], images="4x4x3").shape == (96, 256))
    out = WORK / "images.png"
    run("generate", WORK / "images.sla", "--weights", WORK / "data-images.run", "--images", "4x4x3", "--image", data, "--keep", 1, "--png", out, "--seed", 2, "-j", 2)
    kept = pixels[3, :1].ravel()
    drawn = [*kept, *model.generate([0, *kept], tokens=48 - len(kept), seed=2)]
    check("images: a PNG that is completed", np.array_equal(model.logits(out / "4.png", images="4x4x3"), model.logits(np.array([drawn]), images="4x4x3")))
    raises("images: another size", sluice.InputError, lambda: model.score(pixels, images="4x4x1"), "images", "context=16 in the spec")
    raises("images: no size", sluice.InputError, lambda: model.score(pixels, images="4x4"), "images", "WIDTHxHEIGHTxCHANNELS")
    raises("images: not whole", sluice.InputError, lambda: model.score(pixels.ravel()[:-1], images="4x4x3"), "48 bytes each")
    raises("images: no bytes", sluice.InputError, lambda: model.score(pixels.astype(np.int32) + 1, images="4x4x3"), "bytes of pixels", "256")


CONLLU = "\n".join(["# text", *(f"{i + 1}\t{word}\t_\t_\t_\t_\t{head}\t_\t_\t_" for i, (word, head) in enumerate((("ab", 2), ("cd", 0), ("ef", 2)))), "", ""])


def check_links():
    compile_tiny("umst")
    model = sluice.load(WORK / "umst.sla", threads=2)
    model.initialize(7)
    lines = [b"ab cd ef"] * model.batch_rows
    text = write("links.text", b"".join(line + b"\n" for line in lines))
    links = write("links.conllu", CONLLU.encode() * len(lines))
    told = train_told("umst", "--data", text, "--input", f"source={text}", "--input", f"links={links}", steps=3)
    check("CoNLL-U: inputs of the model", model.inputs == {"source": "lines", "links": "edges"}, str(model.inputs))
    for name, source, inputs in (("CoNLL-U and arrays", lines, {"source": lines, "links": links}),
                                 ("CoNLL-U and files", text, {"source": text, "links": links}),
                                 ("edges", lines, {"source": lines, "links": [[(0, 1), (1, 2)]] * len(lines)})):
        check_training(name, model, told, source, inputs=inputs)
    told = eval_told("umst", "--data", text, "--input", f"source={text}", "--input", f"links={links}")
    check_eval("CoNLL-U", model, told, lines, inputs={"source": lines, "links": links})
    check_eval("CoNLL-U and files", model, told, text, inputs={"source": text, "links": links})
    drawn = [list(model.generate(b"a", tokens=9, inputs=inputs, line=2)) for inputs in ({"source": lines, "links": links}, {"source": text, "links": links})]
    check("CoNLL-U: generate", drawn[0] == drawn[1] and len(drawn[0]) > 0, str(drawn))
    gradients = [model.gradients(*each) for each in ((lines, {"source": lines, "links": links}), (lines, {"source": lines, "links": [[(0, 1), (1, 2)]] * len(lines)}))]
    check("CoNLL-U: gradients", all(np.array_equal(gradients[0][name], array) for name, array in gradients[1].items()))
    error = raises("CoNLL-U: other words", sluice.InputError, lambda: model.score([b"ab cd xx"], inputs={"source": [b"ab cd xx"], "links": write("one.conllu", CONLLU.encode())}), "one.conllu", "xx")
    check("its place", error.file.endswith("one.conllu") and error.line == 2 and error.remedy != "", repr(vars(error)))
    error = raises("no edges", sluice.InputError, lambda: model.score(text, inputs={"source": text}), "inputs links=FILE", '"pattern": "chain" for "capacity"')
    check("its words", "--" not in error.message, error.message)
    spec = json.loads((TINY / "umst.json").read_text())
    spec["inputs"]["links"] = {"type": "edges", "on": "ends", "pattern": "chain"}
    check("its remedy", sluice.check(spec).proved)
    wrong = write("wrong.conllu", CONLLU.replace("\t2\t", "\t9\t").encode())
    error = raises("CoNLL-U: a head that is missing", sluice.InputError, lambda: model.score([b"ab cd ef"], inputs={"source": [b"ab cd ef"], "links": wrong}), "wrong.conllu:2")
    check("and its place", error.line == 2, repr(vars(error)))
    raises("a file for one line", sluice.InputError, lambda: model.generate(b"a", inputs={"source": text, "links": links}), "line=")
    raises("a line beyond the file", sluice.InputError, lambda: model.generate(b"a", inputs={"source": text, "links": links}, line=99), "found 99")
    raises("a missing file of lines", sluice.InputError, lambda: model.generate(b"a", inputs={"source": WORK / "none", "links": links}, line=0), "none")


def check_line_files():
    """Batches of lines by length, and a tokenizer."""
    spec = json.loads((TINY / "copy.json").read_text())
    spec["vocabulary"] = 300
    spec["training"]["batch_tokens"] = 32
    model = compile_spec("by-length", spec)
    source = write("by-length.text", b"".join(line + b"\n" for line in make_lines(50, 8)))
    tokenizer = WORK / "by-length.tok"
    run("tokenizer", "--data", source, "--vocabulary", 300, "-o", tokenizer)
    flags = ("--data", source, "--input", f"source={source}", "--tokenizer", tokenizer)
    told = train_told("by-length", *flags, steps=9)
    check_training("lines by length", model, told, source, inputs={"source": source}, tokenizer=tokenizer)
    check_eval("lines by length", model, eval_told("by-length", *flags), source, inputs={"source": source}, tokenizer=tokenizer)
    raises("arrays by length", sluice.InputError, lambda: next(model.train([b"ab"] * 9, inputs={"source": [b"cd"] * 9})), "paths in Python")
    raises("in order by length", sluice.InputError, lambda: model.train(source, inputs={"source": source}, shuffle=False), "in_order")
    raises("a tokenizer for arrays", sluice.InputError, lambda: model.score([b"ab"], inputs={"source": [b"cd"]}, tokenizer=tokenizer), "files of lines")
    raises("no tokenizer", sluice.InputError, lambda: model.score(source, inputs={"source": source}, tokenizer=source), "tokenizer")


def check_data():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in (check_labels, check_numbers, check_images, check_links, check_line_files):
            part()


PARTS = [(check_data, 300)]

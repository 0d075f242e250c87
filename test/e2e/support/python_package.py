#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the package sluice: the same bits as the command line, hostile arguments, threads, a fork, and memory.

Usage: python_package.py ROOT WORK
"""

import gc
import itertools
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import python_data
import python_hostile
import python_lines
from python_checks import ROOT, TINY, WORK, check, compile_tiny, count_failures, make_batch, raises, run, run_parts

import sluice

def compare_model(name):
    """Compares weights, evaluation, logits, activations and generation with the command line."""
    model = sluice.load(compile_tiny(name), threads=2)
    model.initialize(5)
    batch = make_batch(model)
    model.train_step(batch)
    weights = WORK / f"{name}.safetensors"
    model.save_weights(weights)
    rng = np.random.default_rng(1)
    tokens = rng.integers(0, model.vocabulary, 3 * model.context + 5, dtype=np.int32)
    data = WORK / f"{name}.npy"
    np.save(data, tokens)
    artifact, flags = WORK / f"{name}.sla", ("--weights", weights, "-j", 2)
    told = json.loads(run("eval", artifact, *flags, "--data", data, "--json"))
    count = sum(told["chunks"].values()) if "chunks" in told else told["tokens"]
    own = model.score(tokens)
    check(f"{name}: eval", own.nats == told["nats"] and own.tokens == count, f"{own} {told['nats']} {count}")
    if told.get("bits_per_chunk") is not None:
        return
    run("logits", artifact, *flags, "--data", data, "-o", WORK / f"{name}.logits.npy")
    check(f"{name}: logits", np.array_equal(model.logits(tokens), np.load(WORK / f"{name}.logits.npy")))
    if name in ("vanilla", "hourglass", "top-down"):  # each compiles twice
        stream = "stages.1"
        activations = model.activations(tokens, [stream])[stream]
        out = WORK / f"{name}.rows.npy"
        run("logits", artifact, *flags, "--data", data, "--stream", stream, "-o", out)
        check(f"{name}: activations", np.array_equal(activations, np.load(out)))
    prompt = tokens[: model.context // 2]
    ids = " ".join(map(str, prompt))
    try:
        drawn = list(model.generate(prompt, tokens=20, seed=3))
    except sluice.InputError as error:
        check(f"{name}: no generation", "expected" in str(error), str(error))
        return
    text = run("generate", artifact, *flags, "--prompt-tokens", ids, "--tokens", 20, "--seed", 3, "--no-echo")
    check(f"{name}: generate", drawn == [int(word) for word in text.split()], f"{drawn} {text}")
    if name != "vanilla":
        return
    end = model.search(prompt, tokens=9).tokens[0]
    for cached, options in ((True, {}), (True, {"beam": 2, "length_penalty": 0.0, "end": end}), (True, {"beam": 3, "length_penalty": 1.0, "min_tokens": 2, "no_repeat": 2, "end": 7}),
                            (False, {"beam": 2})):
        own = {"beam": 4, "tokens": 9, **options}
        given = [text for key, value in own.items() for text in (f"--{key.replace('_', '-')}".replace("--end", "--end-token"), value)]
        told = json.loads(run("generate", artifact, *flags, "--prompt-tokens", ids, *given, "--json", *([] if cached else ["--no-cache"])))
        found = model.search(prompt, **own, cached=cached)
        check(f"{name}: search with {own}", (found.tokens + [own.get("end")] * found.finished, found.score, found.finished)
              == (told["ids"], told["score"], told["stop"] == "stop"), f"{found} {told}")


COMPARED = ("contrast", "hourglass", "hred", "losses", "top-down", "vanilla", "vanilla-bf16")


def compare_models():
    alone = 0
    # One of each kind of evaluation and generation; scripts/trial.sh interface compares all tiny models.
    for name in COMPARED:
        spec = TINY / f"{name}.json"
        model = sluice.load(compile_tiny(spec.stem), threads=1)
        model.initialize(1)
        try:
            model.score(np.zeros(2 * model.context, np.int32))
            model.train_step(np.zeros((model.batch_rows, model.context + 1), np.int32))
        except sluice.InputError as error:
            check(f"{spec.stem}: has other inputs", "whose only input is its tokens" in str(error) or "labels" in str(error), str(error))
            continue
        except sluice.JobError:
            pass
        alone += 1
        compare_model(spec.stem)
    check("models of tokens alone were compared", alone == len(COMPARED), str(alone))


def compare_training():
    """Compares a training on texts in memory with the command line, over three epochs in its order of rows, and a resumed one."""
    text = np.random.default_rng(2).integers(97, 123, 1500, dtype=np.uint8)
    files = [WORK / "text.1", WORK / "text.2"]
    files[0].write_bytes(bytes(text[:1000]))
    files[1].write_bytes(bytes(text[1000:]))
    out = WORK / "run"
    compile_tiny("vanilla")
    train = ("train", WORK / "vanilla.sla", "--data", *files, "--seed", 9, "--out", out, "-j", 2, "--save-every", 4, "--keep", 9)
    run(*train, "--steps", 15)
    told = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    told = [(line["loss"], line["grad_norm"]) for line in told]
    model = sluice.load(WORK / "vanilla.sla", threads=2)
    model.initialize(9)
    texts = [text[:1000], bytes(text[1000:])]
    own = [tuple(step) for step in model.train(texts, epochs=3)]
    check("train: the same losses over epochs", len(own) > 12 and own == told, f"{own} {told}")
    trained = {name: array.copy() for name, array in model.parameters().items()}
    model.load_weights(out)
    check("train: the same weights", all(np.array_equal(trained[name], array) for name, array in model.parameters().items()))
    check("load_weights: step 0", model.step == 0, str(model.step))
    model.load_checkpoint(out, step=4)
    check("load_checkpoint: its step", model.step == 4, str(model.step))
    resumed = [tuple(step) for step in model.train(texts, epochs=3, start=model.step)]
    check("load_checkpoint: continues the run", resumed == told[4:], f"{resumed} {told[4:]}")
    model.initialize(9)
    check("shuffle=False: other losses", [tuple(step) for step in model.train(texts, steps=2, shuffle=False)] != told[:2])
    first = WORK / "first.safetensors"
    model.initialize(9)
    model.save_weights(first)
    step = next(model.train(texts))
    list(model.train(texts, steps=3))
    model.load_weights(first)
    check("load_weights: a new optimizer", next(model.train(texts)) == step)
    damaged = out / "checkpoints/4/optimizer.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    before = model.evaluate(text[:200])
    raises("load_checkpoint: a damaged file", sluice.InputError, lambda: model.load_checkpoint(out, step=4), "damaged")
    check("leaves the model", model.evaluate(text[:200]) == before and model.step == 1)
    raises("load_checkpoint: a missing step", sluice.InputError, lambda: model.load_checkpoint(out, step=3), "step 3")


def check_arrays():
    model = sluice.load(compile_tiny("vanilla-bf16"), threads=2)
    model.initialize(1)
    tokens = np.arange(100, dtype=np.int32)
    before = model.logits(tokens)
    parameters = model.parameters()
    check("parameters: their number", sum(array.size for array in parameters.values()) == model.parameter_count)
    name = next(name for name in parameters if name.endswith("query.weight"))
    again = model.parameters()[name]
    parameters[name][...] *= 2
    check("parameters: no copy", np.array_equal(again, parameters[name]) and np.shares_memory(again, parameters[name]))
    check("parameters: DLPack", np.shares_memory(np.from_dlpack(again), again))
    changed = model.logits(tokens)
    check("parameters: a write changes the logits", not np.array_equal(before, changed))
    evaluated = model.evaluate(tokens)
    model.save_weights(WORK / "written.safetensors")
    other = sluice.load(compile_tiny("vanilla-bf16"), threads=2)
    other.load_weights(WORK / "written.safetensors")
    check("parameters: bf16 copies are computed again",
          np.array_equal(other.logits(tokens), changed) and other.evaluate(tokens) == evaluated)
    parameters[name][...] /= 2
    check("parameters: a write back", np.array_equal(model.logits(tokens), before))
    total, array = float(again.sum()), again
    del model, parameters, again, other
    gc.collect()
    check("parameters: an array keeps its model", float(array.sum()) == total)

    model = sluice.load(compile_tiny("vanilla"), threads=2)
    model.initialize(3)
    batch = make_batch(model)
    gradients = model.gradients(batch)
    weights = {name: array.copy() for name, array in model.parameters().items()}
    norm = np.sqrt(sum(float((array.astype(np.float64) ** 2).sum()) for array in gradients.values()))
    step = model.train_step(batch)
    check("gradients: their norm", abs(norm - step.gradient_norm) < 1e-5 * norm, f"{norm} {step}")
    check("gradients: do not change weights, a step does",
          any(not np.array_equal(weights[name], array) for name, array in model.parameters().items()))
    model.initialize(3)
    check("gradients: initialize restores weights", all(np.array_equal(weights[n], a) for n, a in model.parameters().items()))
    check("gradients: the same twice", all(np.array_equal(gradients[n], a) for n, a in model.gradients(batch).items()))
    for kind in (np.int64, np.uint16):
        check(f"tokens: {np.dtype(kind)}", model.train_step(batch.astype(kind)).loss > 0)
    model.initialize(3)
    check("tokens: not contiguous", model.train_step(np.asfortranarray(batch)) == step)
    model.initialize(3)
    check("tokens: lists", model.train_step(batch.tolist()) == step)
    text = batch.ravel()
    rows = [text[i * model.context : i * model.context + model.context + 1] for i in range(2 * model.batch_rows)]
    model.initialize(3)
    direct = [model.train_step(np.stack(rows[: model.batch_rows]))]
    pieces = (text[i : i + 37] for i in range(0, len(text), 37))
    model.initialize(3)
    check("source: a generator of texts", list(model.train(pieces)) == direct[:1], str(direct))
    model.initialize(3)
    check("source: batches and a number of steps", len(list(model.train(itertools.repeat(batch), steps=3))) == 3 and model.step == 3)


def check_hostile():
    artifact = compile_tiny("vanilla")
    model = sluice.load(artifact, threads=2)
    model.initialize(1)
    batch = make_batch(model)
    good = model.evaluate(np.arange(100))
    error = raises("a shape", sluice.InputError, lambda: model.train_step(batch[:, :-1]), "expected [4, 65]", "found [4, 64]")
    check("its parts", error.expected.startswith("[4, 65]") and error.found == "[4, 64]" and error.remedy != "" and isinstance(error, ValueError))
    raises("no rows", sluice.InputError, lambda: model.train_step(np.zeros((0, 65), np.int32)), "[0, 65]")
    raises("one dimension", sluice.InputError, lambda: model.train_step(batch[0]), "2 dimensions")
    raises("floats", sluice.InputError, lambda: model.train_step(batch.astype(np.float32)), "expected integers")
    raises("booleans", sluice.InputError, lambda: model.train_step(batch > 3), "expected integers")
    raises("objects", sluice.InputError, lambda: model.logits([None, 3]), "expected integers")
    raises("uneven lists", sluice.InputError, lambda: model.train_step([[1, 2], [3]]), "tokens")
    raises("no array", sluice.InputError, lambda: model.logits(7), "expected")
    raises("an empty text", sluice.InputError, lambda: model.logits([]), "at least one token")
    raises("an empty text to evaluate", sluice.InputError, lambda: model.evaluate(b""), "expected at least")
    raises("a huge id", sluice.InputError, lambda: model.logits([1, 2**40]), "1099511627776")
    raises("a huge id of Python", sluice.InputError, lambda: model.logits([1, 2**80]), "expected")
    raises("an id beyond the vocabulary", sluice.InputError, lambda: model.logits([1, 256]), "from 0 to 255", "256 at index 1")
    raises("a negative id", sluice.InputError, lambda: model.evaluate([1, -1, 2]), "found -1")
    raises("a window", sluice.InputError, lambda: model.score(np.arange(100), window=65), "window")
    raises("an empty prompt", sluice.InputError, lambda: model.generate(b""), "at least one token")
    raises("a temperature", sluice.InputError, lambda: model.generate(b"a", temperature=float("nan")), "temperature")
    for name, options, parts in (("a wide beam", {"beam": 17}, ("at most 16", "17", "with generation_rows 17")),
                                 ("a wider beam", {"beam": 65}, ("at most 16", "65", "cached=False")), ("no beam", {"beam": 0}, ("beam", "0")),
                                 ("a penalty", {"length_penalty": float("nan")}, ("length_penalty", "nan")),
                                 ("an end beyond the ids", {"end": 256}, ("end", "below 256", "None in Python")),
                                 ("tokens beyond the context", {"tokens": model.context + 1}, ("context", "lower it")),
                                 ("tokens before no end", {"min_tokens": 1}, ("min_tokens", "found none")),
                                 ("too many tokens before the end", {"min_tokens": 9, "end": 1, "tokens": 9}, ("fewer than", "9"))):
        error = raises(f"search: {name}", sluice.InputError, lambda options=options: model.search(b"a", **options), *parts)
        check("its words", "--" not in error.message, error.message)
    sluice.compile(TINY / "vanilla.json", WORK / "wide.sla", generation_rows=17)
    wide = sluice.load(WORK / "wide.sla", threads=2)
    wide.initialize(1)
    check("search: the remedy of a wide beam", wide.search(b"a", beam=17, tokens=3).tokens == model.search(b"a", beam=17, tokens=3, cached=False).tokens)
    raises("generation rows", sluice.InputError, lambda: sluice.compile(TINY / "vanilla.json", WORK / "wide.sla", generation_rows=65), "from 1 to 64")
    raises("search: an empty prompt", sluice.InputError, lambda: model.search(b""), "at least one token")
    raises("a number of tokens", sluice.InputError, lambda: model.generate(b"a", tokens=-1), "tokens")
    raises("a stream", sluice.InputError, lambda: model.activations(b"abc", ["nothing"]), "expected a stream")
    raises("a missing artifact", sluice.InputError, lambda: sluice.load(WORK / "none.sla"), "none.sla")
    raises("a device", sluice.InputError, lambda: sluice.load(artifact, device="tpu"), "cpu, cuda or emulator")
    truncated = WORK / "truncated.sla"
    truncated.write_bytes(artifact.read_bytes()[:-1000])
    raises("a truncated artifact", sluice.InputError, lambda: sluice.load(truncated), "truncated.sla")
    raises("weights of another kind", sluice.InputError, lambda: model.load_weights(artifact), "vanilla.sla")
    raises("missing weights", sluice.InputError, lambda: model.load_weights(WORK / "none"), "none")
    raises("a folder that is not there", sluice.InputError, lambda: model.save_weights(WORK / "no/such/w"), "no/such")

    def throwing():
        yield batch
        raise KeyError("source")

    raises("an exception in a source", KeyError, lambda: list(model.train(throwing())), "source")
    raises("a source of other rows", sluice.InputError, lambda: list(model.train([batch[:, :-1]])), "rows of 65")
    model.initialize(1)
    check("the model is unharmed", model.evaluate(np.arange(100)) == good)
    name, array = next(iter(model.parameters().items()))
    array[...] = np.nan
    raises("NaN weights: a step", sluice.JobError, lambda: model.train_step(batch), "finite")
    raises("NaN weights: evaluation", sluice.JobError, lambda: model.evaluate(np.arange(100)), "finite")
    raises("NaN weights: logits", sluice.JobError, lambda: model.logits(np.arange(10)), "finite")
    raises("NaN weights: search", sluice.JobError, lambda: model.search(b"abc", tokens=3), "finite")
    raises("NaN weights: generation", sluice.JobError, lambda: list(model.generate(b"abc", tokens=3)), "finite")
    raises("NaN weights: saving", sluice.JobError, lambda: model.save_weights(WORK / "nan"), name)
    check("nothing was saved", not (WORK / "nan").exists())


def check_specs():
    spec = json.loads((TINY / "vanilla.json").read_text())
    check("check: a path, a dict and a text", all(sluice.check(s).proved for s in (TINY / "vanilla.json", spec, json.dumps(spec))))
    wrong = dict(spec, width="wide")
    error = raises("check: a wrong spec", sluice.InputError, lambda: sluice.check(wrong), "width")
    check("its place", error.line > 1 and error.column > 0 and error.file == "spec.json", repr(vars(error)))
    leaky = json.loads((ROOT / "test/causality/leaky/attention-bidirectional.json").read_text())
    verdict = sluice.check(leaky)
    check("check: a leak", not verdict.proved and verdict.witness.token > verdict.witness.row, verdict.text)
    error = raises("compile: a leak", sluice.LeakError, lambda: sluice.compile(leaky, WORK / "leak.sla"))
    check("its witness", error.witness == verdict.witness and not (WORK / "leak.sla").exists())
    sluice.compile(leaky, WORK / "leak.sla", allow_leak=True)
    check("compile: an allowed leak", not sluice.load(WORK / "leak.sla").is_proved)
    raises("compile: over another file", sluice.InputError, lambda: sluice.compile(spec, TINY / "vanilla.json"), "vanilla.json")
    raises("compile: a target", sluice.InputError, lambda: sluice.compile(spec, WORK / "t.sla", targets=["cpu-z80"]), "cpu-z80")
    raises("check: no spec", sluice.InputError, lambda: sluice.check(3), "spec")


def check_lifetimes():
    artifact = compile_tiny("vanilla")
    model, other = sluice.load(artifact, threads=2), sluice.load(compile_tiny("hourglass"), threads=2)
    model.initialize(1)
    other.initialize(2)
    alone = [list(each.generate(b"water", tokens=90)) for each in (model, other)]
    pairs = list(zip(model.generate(b"water", tokens=90), other.generate(b"water", tokens=90)))
    check("two models at once", [list(texts) for texts in zip(*pairs)] == alone)
    first = model.generate(b"water", tokens=90)
    second = model.generate(b"fire", tokens=90, seed=4)
    mixed = []
    for token in first:
        mixed.append(token)
        next(second)
        if len(mixed) % 30 == 0:
            model.score(np.arange(200) % 256)
    check("two generators and evaluations of one model", mixed == alone[0])
    first, mixed, found = model.generate(b"water", tokens=90), [], set()
    for token in first:
        mixed.append(token)
        if len(mixed) in (10, 30):
            found.add(str(model.search(b"water", beam=16, tokens=20)))
    check("a generator and searches of one model", mixed == alone[0] and len(found) == 1, f"{mixed} {alone[0]} {found}")
    generator = model.generate(b"water", tokens=90)
    begun = [next(generator) for _ in range(10)]
    del model
    gc.collect()
    check("a generator keeps its model", begun + list(generator) == alone[0])

    model = sluice.load(artifact, threads=2)
    model.initialize(1)
    taken = []
    while len(taken) < 1000:
        try:
            taken.append(model.generate(b"a"))
        except sluice.InputError as error:
            check("too many generators", "free a generator" in str(error), str(error))
            break
    check("generators at once", 16 <= len(taken) < 1000, str(len(taken)))
    taken.pop().close()
    check("a closed generator frees its row", next(model.generate(b"a")) is not None)
    del taken

    results, batch = {}, make_batch(model)
    tokens = np.arange(1000) % 256
    expected = model.score(tokens), model.logits(tokens), model.gradients(batch)

    def work(number):
        for _ in range(4):
            same = (model.score(tokens) == expected[0] and np.array_equal(model.logits(tokens), expected[1])
                    and all(np.array_equal(expected[2][n], a) for n, a in model.gradients(batch).items())
                    and list(model.generate(b"water", tokens=90)) == alone[0])
            results[number] = results.get(number, True) and same

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check("four threads on one model", results == {number: True for number in range(4)}, str(results))

    child = os.fork()
    if child == 0:
        status = 1
        try:
            model.evaluate(tokens)
        except sluice.InputError as error:
            own = sluice.load(artifact, threads=2)
            own.initialize(1)
            status = 0 if "this process" in str(error) and own.score(tokens) == expected[0] else 2
        finally:
            del model
            gc.collect()
            os._exit(status)
    check("a fork after a load", os.waitpid(child, 0)[1] == 0)
    check("the parent of a fork", model.score(tokens) == expected[0])


def interrupt(name, action):
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    begin = time.monotonic()
    try:
        timer.start()
        action()
        check(f"Ctrl-C: {name}", False, "finished")
    except KeyboardInterrupt:
        check(f"Ctrl-C: {name}", time.monotonic() - begin < 10, f"after {time.monotonic() - begin} s")
    timer.join()


def check_interrupts():
    model = sluice.load(compile_tiny("hourglass"), threads=2)
    model.initialize(1)
    long_text = np.tile(np.arange(256, dtype=np.int32), 20000)
    batch = make_batch(model)
    endless = itertools.repeat(batch)
    model.logits(long_text[:10])  # compiles
    interrupt("evaluate", lambda: model.evaluate(long_text))
    interrupt("logits", lambda: model.logits(long_text[:2000000]))
    interrupt("train", lambda: list(model.train(endless)))
    interrupt("generate", lambda: list(model.generate(b"a", tokens=2**40)))
    interrupt("search", lambda: [model.search(b"a", beam=16, no_repeat=1, cached=False) for _ in itertools.count()])
    check("the model works after Ctrl-C", np.isfinite(model.evaluate(long_text[:1000])))
    folder = WORK / "interrupted"
    folder.mkdir()
    interrupt("compile", lambda: sluice.compile(ROOT / "models/small/umst.json", folder / "never.sla"))
    check("an interrupted compilation writes nothing", not list(folder.iterdir()))
    ticks, done = [0], threading.Event()

    def tick():
        while not done.wait(0.001):
            ticks[0] += 1

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        model.evaluate(long_text[:300000])
    finally:
        done.set()
        thread.join()
    check("a long call lets other threads run", ticks[0] > 10, str(ticks))


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def check_memory():
    artifact = compile_tiny("vanilla")
    sizes = []
    for number in range(1000):
        model = sluice.load(artifact, threads=1)
        model.initialize(number)
        del model
        if number in (299, 999):
            gc.collect()
            sizes.append(resident())
    check("1,000 loads: flat memory", sizes[1] - sizes[0] < 8 << 20, str(sizes))
    check("and no open files", len(os.listdir("/proc/self/fd")) < 50)


handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGSEGV, signal.SIGABRT, signal.SIGPIPE)}
run_parts([(check_specs, 300), (compare_training, 300), (check_arrays, 300), (check_hostile, 300), *python_hostile.PARTS, *python_lines.PARTS, *python_data.PARTS,
           (check_lifetimes, 300), (check_interrupts, 300), (compare_models, 900), (check_memory, 300)])
caught = [line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("SigCgt")]
check("no signal handler but Python's", int(caught[0], 16) & ~(1 << (signal.SIGINT - 1)) & 0x7FFFFFFF == 0, caught[0])
check("Python's handlers are in place", handlers == {number: signal.getsignal(number) for number in handlers})
sys.exit(count_failures() > 0)

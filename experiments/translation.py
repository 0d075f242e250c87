#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Words and phrases in the encoder of a translator (Li et al. 2022): a plain encoder, `umst` with links of a parser, `umst` with a chain.

Data: paragraphs of Debian's `debian-handbook`, English to Norwegian (the language with the most translated paragraphs), of at most 400
characters on both sides. Paragraphs that are more than half English words of their source count as not translated. 150 drawn paragraphs
are held out. One byte-pair encoding of 4,000 pieces has both languages. Edges between words are the links of link-grammar, sentence by
sentence, or connect each word with the next one.

Width 128, three layers on either side. All runs have one budget of operations, for lines of the mean length with the mean
number of words. Translations are by a beam of 4, scored by `sluice score`.

Criterion, fixed before any run: a claim is borne out where the mean difference of BLEU over the paired seeds is above 0 with p < 0.05 in a
two-sided paired t-test, contradicted where it is below 0 with p < 0.05, and open otherwise.

Two rows that no training made are next to them: the source itself, and its words replaced by a table of the most probable translation of
each, from ten rounds of IBM model 1 over the training paragraphs.

Usage: translation.py [--seeds N...] [--operations N] [--threads N] [--device cpu|cuda]
Needs the packages of lab.py, and Debian's python3-link-grammar for /usr/bin/python3.
"""
import argparse
import html
import json
import random
import re
import subprocess

import numpy

import lab

FOLDER = lab.BUILD / "experiments/translation"
PAGES = "usr/share/doc/debian-handbook/html"
PARAGRAPH = re.compile(r'<div class="para">(.*?)</div>', re.DOTALL)
SENTENCE_END = re.compile(r"(?<=[.!?:]) (?=[A-Z(\"“])")
LANGUAGE = "nb-NO"
MOST_CHARACTERS = 400
HELD_OUT = 150
PIECES = 4000
CONTEXT, BATCH, WIDTH, LAYERS = 176, 32, 128, 3
BUDGET = 2.5e13
ARMS = ("plain", "links", "chain")


def read_paragraphs(page):
    text = page.read_text(encoding="utf-8")
    return [" ".join(html.unescape(re.sub(r"<[^>]*>", "", found)).split()) for found in PARAGRAPH.findall(text)]


def is_translated(source, target):
    words, seen = target.lower().split(), set(source.lower().split())
    return sum(word in seen for word in words) <= 0.5 * len(words)


def read_pairs():
    """Pairs of paragraphs in the order of the pages' names, each once."""
    root = FOLDER / "package"
    if not (root / PAGES).exists():
        root.mkdir(parents=True, exist_ok=True)
        subprocess.run("apt-get download debian-handbook && dpkg-deb -x debian-handbook_*.deb .", shell=True, check=True, cwd=root)
    pairs = {}
    for page in sorted((root / PAGES / "en-US").glob("*.html")):
        sources, targets = read_paragraphs(page), read_paragraphs(root / PAGES / LANGUAGE / page.name)
        if len(sources) == len(targets):
            pairs |= {pair: None for pair in zip(sources, targets)}
    return [(source, target) for source, target in pairs
            if source and target and max(len(source), len(target)) <= MOST_CHARACTERS and is_translated(source, target)]


def write_lines(name, lines):
    (FOLDER / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def find_links(sources):
    """Edges between the words of each paragraph, as pairs of numbers."""
    sentences = [SENTENCE_END.split(source) for source in sources]
    write_lines("sentences.txt", [sentence for paragraph in sentences for sentence in paragraph])
    found = subprocess.run(["/usr/bin/python3", lab.ROOT / "scripts/link_grammar.py", "--seconds", "1", FOLDER / "sentences.txt"], check=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    print(f"links: {found.stderr.count('no links')} of {sum(map(len, sentences))} sentences have none", flush=True)
    parsed = iter(found.stdout.strip("\n").split("\n\n"))
    lines = []
    for paragraph in sentences:
        edges, first = [], 0
        for _ in paragraph:
            rows = [line.split("\t") for line in next(parsed).split("\n") if not line.startswith("#")]
            for row in rows:
                heads = [] if row[8] == "_" else [int(head.split(":")[0]) for head in row[8].split("|")]
                edges += [f"{first + int(row[0]) - 1}-{first + head - 1}" for head in heads]
            first += len(rows)
        lines.append(" ".join(edges))
    return lines


def make_data():
    """Files of both parts, and the tokenizer."""
    if (FOLDER / "data.tok").exists():
        return
    pairs = read_pairs()
    random.Random(1).shuffle(pairs)
    parts = {"test": pairs[:HELD_OUT], "train": pairs[HELD_OUT:]}
    links = find_links([source for source, _ in pairs])
    for part, some in parts.items():
        write_lines(f"{part}.en", [source for source, _ in some])
        write_lines(f"{part}.nb", [target for _, target in some])
        write_lines(f"{part}.chain", [" ".join(f"{u}-{u + 1}" for u in range(len(source.split()) - 1)) for source, _ in some])
        write_lines(f"{part}.links", links[:HELD_OUT] if part == "test" else links[HELD_OUT:])
    lab.run("tokenizer", "--data", FOLDER / "train.en", FOLDER / "train.nb", "--vocabulary", PIECES, "-o", FOLDER / "data.tok")


def count_means():
    """Mean tokens of a target and of a source with their ends, and mean words of a source with its end."""
    means = []
    for language in ("nb", "en"):
        path = FOLDER / f"train.{language}"
        lab.run("tokenizer", "--tokenizer", FOLDER / "data.tok", "--encode", path, "-o", FOLDER / "ids.npy")
        means.append(numpy.load(FOLDER / "ids.npy").size)
    lines = (FOLDER / "train.en").read_text(encoding="utf-8").splitlines()
    means.append(sum(len(line.split()) + 1 for line in lines))
    return [round(mean / len(lines)) for mean in means]


def spec(arm, context=CONTEXT, source_context=CONTEXT):
    embedding = {"op": "embedding", "share": "tokens", "scale": 11.3137, "deviation": 0.0884, "positions": "sinusoidal", "dropout": 0.1}
    source = {"context": source_context, "end": True}
    if arm == "plain":
        inputs = {"source": source}
        encoder = [embedding | {"input": "source"}, {"op": "layers", "count": LAYERS, "mask": "bidirectional"}, {"op": "norm", "to": "memory"}]
    else:
        word = {"on": "source", "rule": "pieces"}
        inputs = {"source": source, "ends": word | {"derived": "word_end"}, "class": word | {"derived": "word_split"},
                  "links": {"type": "edges", "on": "ends"}}
        encoder = [{"op": "embedding", "input": "class", "scale": 11.3137, "deviation": 0.0884, "to": "classes"},
                   {key: value for key, value in embedding.items() if key != "dropout"} | {"input": "source"},
                   {"op": "add", "with": "classes"}, {"op": "dropout", "rate": 0.1},
                   {"op": "boundaries", "name": "words", "rule": "bits", "bits": "ends"},
                   {"op": "umst", "count": LAYERS, "segments": "words", "edges": "links", "to": "memory"}]
    decoder = []
    for layer in range(LAYERS):
        own = {"from": "target"} if layer == 0 else {}
        decoder += [{"op": "layer", "feed_forward": 0, "to": f"own_{layer}"} | own, {"op": "norm", "to": f"query_{layer}"},
                    {"op": "attention", "from": f"own_{layer}", "query": f"query_{layer}", "key": "memory", "value": "memory",
                     "attention_norm": False}, {"op": "feed_forward"}]
    return {"sluice": 1, "name": f"translation-{arm}", "vocabulary": PIECES, "context": context, "batch": BATCH, "width": WIDTH, "inputs": inputs,
            "defaults": {"heads": 4, "feed_forward": 512, "activation": "relu", "dropout": 0.1, "attention_dropout": 0.1,
                         "feed_forward_dropout": 0.1},
            "stages": [embedding | {"to": "target"}, *encoder, *decoder, {"op": "norm"},
                       {"op": "head", "share": "tokens", "label_smoothing": 0.1}],
            "training": {"optimizer": "adam", "learning_rate": 2e-3, "betas": [0.9, 0.98], "epsilon": 1e-9, "weight_decay": 0}}


def count_operations(arm, target, source, words):
    """Operations of a training step with lines of these lengths. `inspect` counts a word for each row; the rest is subtracted here."""
    counted = lab.operations(lab.compile_steps(FOLDER / arm / "cost", spec(arm, target, source), 100))
    maps = 3 * 2 * WIDTH**2 * (source - words)  # words' rows of the graph convolution, the queries and the keys
    attention = 4 * WIDTH * (source**2 - words**2)
    return counted - (0 if arm == "plain" else 3 * BATCH * LAYERS * (maps + attention))  # backward takes two more


def get_inputs(arm, part):
    flags = ["--input", f"source={FOLDER}/{part}.en"]
    return flags if arm == "plain" else [*flags, "--input", f"links={FOLDER}/{part}.{arm}"]


def score(name, lines):
    write_lines(name, lines)
    return json.loads(lab.run("score", FOLDER / name, FOLDER / "test.nb", "--json"))["bleu"]


def train_table(pairs, rounds=10):
    """The most probable target word of each source word, by IBM model 1 without a null word."""
    sources, targets = ({word: i for i, word in enumerate(sorted({word for pair in pairs for word in pair[side].split()}))} for side in (0, 1))
    rows, columns, groups, group = [], [], [], 0
    for source, target in pairs:
        seen = [sources[word] for word in source.split()]
        for word in target.split():
            rows += seen
            columns += [targets[word]] * len(seen)
            groups += [group] * len(seen)
            group += 1
    groups = numpy.array(groups)
    keys, entry = numpy.unique(numpy.array(rows, dtype=numpy.int64) * len(targets) + numpy.array(columns), return_inverse=True)
    source_at = keys // len(targets)
    probability = numpy.ones(len(keys))
    for _ in range(rounds):
        weight = probability[entry]
        weight /= numpy.bincount(groups, weight)[groups]
        count = numpy.bincount(entry, weight)
        probability = count / numpy.bincount(source_at, count)[source_at]
    names, table = list(targets), {}
    source_names = list(sources)
    for position in numpy.lexsort((probability, source_at)):  # the last entry of a source word stays
        table[source_names[source_at[position]]] = names[keys[position] % len(targets)]
    return table


def score_baselines():
    pairs = [tuple(pair) for pair in zip(*((FOLDER / f"train.{language}").read_text(encoding="utf-8").splitlines() for language in ("en", "nb")))]
    sources = (FOLDER / "test.en").read_text(encoding="utf-8").splitlines()
    table = train_table(pairs)
    return {"source": score("copied.nb", sources),
            "table": score("table.nb", [" ".join(table.get(word, word) for word in source.split()) for source in sources])}


def translate(arm, seed, artifact, out, threads):
    made = lab.run("generate", artifact, "--weights", out, *get_inputs(arm, "test"), "--beam", 4, "--length-penalty", 0.6, "--json",
                   "--max-tokens", CONTEXT, "--threads", threads, "--device", lab.DEVICE)
    return score(f"{arm}-{seed}.nb", [json.loads(line)["text"].rstrip("\n") for line in made.splitlines()])


def judge(results, first, second, claim):
    ours, theirs = results[first]["bleu"], results[second]["bleu"]
    difference = sum(ours) / len(ours) - sum(theirs) / len(theirs)
    p = lab.stats.ttest_rel(ours, theirs).pvalue if len(ours) > 1 else 1.0
    verdict = "open" if not p < 0.05 else "borne out" if difference > 0 else "contradicted"
    print(f"{claim}: difference {difference:+.3f} BLEU, p {p:.2g}: {verdict}", flush=True)
    return {"claim": claim, "first": first, "second": second, "difference": difference, "p": p, "verdict": verdict}


def main():
    parser = argparse.ArgumentParser(description="Words and phrases in the encoder of a translator.")
    parser.add_argument("--seeds", type=int, nargs="+", default=lab.SEEDS)
    parser.add_argument("--operations", type=float, default=BUDGET)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=["cpu", "cuda"], default=lab.DEVICE)
    options = parser.parse_args()
    lab.DEVICE = options.device
    FOLDER.mkdir(parents=True, exist_ok=True)
    make_data()
    target, source, words = count_means()
    print(f"mean tokens of a target {target}, of a source {source}, mean words {words}", flush=True)
    results = {}
    for arm in ARMS:
        cost = count_operations(arm, target, source, words)
        steps = round(options.operations / cost)
        artifact = lab.compile_steps(FOLDER / arm, spec(arm), steps)
        results[arm] = {"artifact": artifact, "steps": steps, "operations": steps * cost, "bleu": [], "nats": []}
    baselines = score_baselines()
    print(f"BLEU of the source {baselines['source']:.2f}, of the table {baselines['table']:.2f}", flush=True)
    for seed in options.seeds:  # all arms of a seed before the next seed
        for arm, found in results.items():
            flags = ["--tokenizer", FOLDER / "data.tok", *get_inputs(arm, "train"), "--threads", options.threads]
            out, _ = lab.train(FOLDER / arm, found["artifact"], found["steps"], seed, FOLDER / "train.nb", *flags)
            scored = json.loads(lab.run("eval", found["artifact"], "--weights", out, "--data", FOLDER / "test.nb", *get_inputs(arm, "test"),
                                        "--json", "--threads", options.threads, "--device", lab.DEVICE))
            found["nats"].append(scored["nats"] / scored["tokens"])
            found["bleu"].append(translate(arm, seed, found["artifact"], out, options.threads))
            print(f"{arm}, seed {seed}: {found['bleu'][-1]:.2f} BLEU, {found['nats'][-1]:.3f} nats a token after {found['steps']} steps",
                  flush=True)
    arms = {arm: {key: value for key, value in found.items() if key != "artifact"} for arm, found in results.items()}
    claims = [judge(arms, "links", "plain", "words and links are better than a plain encoder"),
              judge(arms, "links", "chain", "links of a parser are better than a chain")]
    (FOLDER / "results.json").write_text(json.dumps({"arms": arms, "claims": claims, "baselines": baselines}, indent=1) + "\n")
    lab.report_time("translation")


if __name__ == "__main__":
    main()

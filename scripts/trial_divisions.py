# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Updates of 12 rows that 2, 3 and 4 processes divide, for trial.py: the bits of one process that runs the same batches one after
another, and the gradients of the undivided batch."""
import filecmp
import json
import pathlib
import subprocess
import sys

COMPARE = pathlib.Path(__file__).parent.parent / "test/e2e/support/compare_gradients.py"
STEPS = 3
BOUND = 1e-5  # of the largest gradient

LAYER = {"op": "layer"}
HEAD = {"op": "head"}
SEGMENTS = [{"op": "shorten", "segments": "words"}, {"op": "shift", "by": 1, "start": "null"}, LAYER,
            {"op": "upsample", "segments": "words", "by": 0}, {"op": "add", "with": "x"}, HEAD]
ENCODER = [{"op": "embedding", "to": "text"}, {"op": "embedding", "input": "source"}, {"op": "layer", "mask": "bidirectional"},
           {"op": "norm", "to": "memory"}, {"op": "layer", "from": "text"}, {"op": "layer", "over": "memory"}, HEAD]
# Keys of the spec by name. Gradients of the bits that a predictor decides are not compared: a rounded sum may change a bit.
SPECS = {
    "dropout": {"defaults": {"dropout": 0.2, "attention_dropout": 0.2},
                "stages": [{"op": "embedding", "dropout": 0.2}, LAYER, HEAD]},
    "drawn factor": {"stages": [{"op": "embedding"}, {"op": "hourglass", "hierarchy": "1@1 1@{2,3} 1@1"}, HEAD]},
    "Gumbel bits": {"stages": [{"op": "embedding"}, {**LAYER, "to": "x"},
                               {"op": "boundaries", "name": "words", "predictor": 8, "prior": 0.3}, *SEGMENTS]},
    "ragged segments": {"stages": [{"op": "embedding"}, {**LAYER, "to": "x"},
                                   {"op": "boundaries", "name": "words", "rule": "whitespace", "capacity": 0.8}, *SEGMENTS]},
    "tied weights": {"stages": [{"op": "embedding"}, LAYER, {"op": "norm"}, {**HEAD, "tied": True}]},
    "padded lines": {"inputs": {"source": {"context": 6}}, "context": 12, "stages": ENCODER},
}


def write_spec(path, keys, batch, batches):
    defaults = {"heads": 2, "feed_forward": 20, **keys.get("defaults", {})}
    training = {"accumulate": batches, "learning_rate": 0.01, "clip": 0.5, "schedule": {"kind": "constant", "warmup": 0, "steps": STEPS}}
    path.write_text(json.dumps({"sluice": 1, "vocabulary": 256, "context": 21, "width": 16, "seed": 3, **keys,
                                "defaults": defaults, "batch": batch, "training": training}))


class Division:
    """The trainings of a spec. `data`: the words of `sluice train` that name its data."""

    def __init__(self, trial, name, keys, data):
        self.trial, self.keys, self.data = trial, keys, data
        self.place = trial.work / name.replace(" ", "-")

    def compile(self, batch, batches):
        spec, artifact = (self.place.with_name(f"{self.place.name}-{batch}x{batches}{end}") for end in (".json", ".sla"))
        write_spec(spec, self.keys, batch, batches)
        subprocess.run([self.trial.program, "compile", spec, "-o", artifact], check=True, capture_output=True)
        return artifact

    def train(self, artifact, end, count=1):
        """Returns the run of a training by `count` processes and a reason if it failed."""
        run = self.place.with_name(f"{self.place.name}-{end}")
        words = [self.trial.program, "train", artifact, *self.data, "--out", run, "--threads", 1, "--steps", STEPS, "--log-every", 1,
                 "--save-every", 1, "--keep", STEPS]
        launcher = ["mpirun", "--oversubscribe", "-n", str(count)] if count > 1 else []
        process = subprocess.run([*launcher, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return run, "" if process.returncode == 0 else f"{end}: status {process.returncode} {process.stdout}"


def compare_bits(run, other):
    """Returns a reason if two runs differ."""
    for step in range(1, STEPS + 1):
        for name in ("weights.safetensors", "optimizer.safetensors"):
            file = f"checkpoints/{step}/{name}"
            if not filecmp.cmp(run / file, other / file, shallow=False):
                return f"{file}: other bits"
    losses = [[json.loads(line)["loss"] for line in (each / "metrics.jsonl").read_text().splitlines()] for each in (run, other)]
    return "" if losses[0] == losses[1] and len(losses[0]) == STEPS else f"other losses: {losses}"


def try_divisions(trial):
    """Divides a batch of 12 rows among 2, 3 and 4 processes."""
    lines = [f"{'abcdefghijk'[:1 + 10 * (number % 3 == 0)]}{number % 7}" for number in range(40)]
    (trial.work / "lines").write_text("\n".join(lines) + "\n")
    (trial.work / "source").write_text("\n".join(line[:5] for line in lines) + "\n")
    for name, keys in SPECS.items():
        data = ("--data", trial.work / "lines", "--input", f"source={trial.work / 'source'}") if "inputs" in keys else (
            "--data", trial.work / "text")
        division = Division(trial, name, keys, data)
        whole = division.compile(12, 1)
        undivided, failure = division.train(whole, "undivided")
        for count in (2, 3, 4):
            one, reason = division.train(division.compile(12 // count, count), f"{count}-batches")
            together, other = division.train(whole, f"{count}-processes", count)
            reason = failure or reason or other or compare_bits(one, together)
            note = ""
            if not reason and name != "Gumbel bits":
                compared = subprocess.run([sys.executable, COMPARE, undivided, together, str(BOUND)],
                                          capture_output=True, text=True, check=False)
                note = f"; {compared.stdout.strip()}"
                reason = compared.stderr if compared.returncode else ""
            trial.check(f"{name}, {count} processes: the bits of {count} batches of {12 // count}{note}", reason)

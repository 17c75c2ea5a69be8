# SPDX-License-Identifier: Apache-2.0
"""A small run to do things to: text, tokenizer, token files, configuration in a fresh folder."""
import json
import os
import random
import shutil
import subprocess
import tempfile

WORDS = ("the river runs to sea and wind comes over hills when morning light falls on stone walls "
         "where old men sit with bread while children play near water").split()


def make_text(rng, documents):
    lines = []
    for _ in range(documents):
        words = [rng.choice(WORDS) for _ in range(rng.randint(3, 120))]
        lines.append(json.dumps({"text": " ".join(words) + "."}))
    return "\n".join(lines) + "\n"


class Bench:
    """Holds the token files; makes runs in sub-folders. Use as a context."""

    def __init__(self, binary, lanes=1, numerics="bf16"):
        self.binary = binary
        self.root = tempfile.mkdtemp(prefix="zaya-resume-")
        self.lanes, self.numerics = lanes, numerics
        rng = random.Random(7)
        for name, documents in (("train", 150), ("validation", 12), ("other", 40)):
            with open(self.path(name + ".jsonl"), "w", encoding="utf-8") as file:
                file.write(make_text(rng, documents))
        self.must(["tokenizer", "train", "--input", self.path("train.jsonl"), "--vocabulary-size",
                   "300", "--output", self.root])
        for name in ("train", "validation", "other"):
            self.must(["prepare", "--input", self.path(name + ".jsonl"), "--tokenizer",
                       self.path("tokenizer.json"), "--output", self.path(name)])
        with open(self.path("run.toml"), "w", encoding="utf-8") as file:
            file.write(self.configuration())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.root, ignore_errors=True)

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def configuration(self):
        return f"""[run]
numerics = "{self.numerics}"
[model]
preset = "tiny"
vocab_size = 320
num_experts = 4
[data]
tokenizer = "{self.path('tokenizer.json')}"
train = ["{self.path('train')}"]
validation = ["{self.path('validation')}"]
[optimizer]
learning_rate = 3e-3
[[phase]]
tokens = 5000
sequence_length = 32
batch_tokens = 256
micro_batch_tokens = 64
warmup_tokens = 500
[[phase]]
tokens = 3000
sequence_length = 64
batch_tokens = 256
micro_batch_tokens = 64
schedule = "linear"
[parallel]
lanes = {self.lanes}
[checkpoint]
every_steps = 4
keep = 3
[metrics]
validate_every_steps = 10
sample_every_steps = 15
sample_tokens = 8
sample_prompt = "the river"
"""

    def command(self, run, *overrides, flags=()):
        return [self.binary, "train", self.path("run.toml"), f"run.directory={self.path(run)}",
                *overrides, *flags]

    def train(self, run, *overrides, flags=(), expect=0, timeout=120):
        done = subprocess.run(self.command(run, *overrides, flags=flags), capture_output=True,
                              text=True, timeout=timeout)
        assert done.returncode == expect, (
            f"{run} {overrides}: exit {done.returncode}, expected {expect}\n{done.stderr[-2000:]}")
        return done.stderr

    def must(self, arguments):
        done = subprocess.run([self.binary, *arguments], capture_output=True, text=True,
                              timeout=120)
        assert done.returncode == 0, f"{arguments}: exit {done.returncode}\n{done.stderr[-2000:]}"
        return done.stdout

    def digest(self, run):
        line = self.must(["checkpoint", "digest", self.path(run)]).strip()
        assert line.startswith("xxh3-128:"), line
        return line

    def metrics(self, run):
        with open(self.path(run, "metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def steps(self, run):
        folder = self.path(run, "checkpoints")
        return sorted(name for name in os.listdir(folder) if not name.endswith(".partial"))

    def check_metrics(self, run):
        rows = self.metrics(run)
        steps = [row["step"] for row in rows]
        assert steps == list(range(1, len(rows) + 1)), f"steps are {steps}"
        return rows

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Failures that users of other trainers met, tried on whole runs of the binary.

usage: known_failures.py --binary ZAYA GROUP

Groups: loss evaluation observation spikes epochs saving retention skips targets clock stopping
refusals sizes options.
tests/cases_covered.md says which case is tried where.
"""
import itertools
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Bench  # noqa: E402
from run_tests import damage_cases, losses  # noqa: E402

LENGTH = 32  # of rows in the tests of losses


def near(a, b, bound):
    return abs(a - b) <= bound * max(abs(a), abs(b))


def documents(bench, name):
    """The documents of a token file, each a list of ids."""
    dump = json.loads(bench.must(["dataset", "dump", "--json", bench.path(name)]))
    return [[id for sequence in document for id in sequence] for document in dump["documents"]]


def windows(texts, length):
    """Per row of `length` inputs and one more target: its pieces of documents."""
    stream = [(id, number) for number, text in enumerate(texts) for id in text]
    rows = []
    for begin in range(0, len(stream) - 1, length):
        row = stream[begin:begin + length + 1]
        pieces = {}
        for id, number in row:
            pieces.setdefault(number, []).append(id)
        rows.append(list(pieces.values()))
    return rows


def num_targets(rows):
    return [sum(len(piece) - 1 for piece in row) for row in rows]


def mean(values):
    return sum(values) / len(values)


def scored(bench, model, rows):
    """Losses of each row's targets by `zaya score`, each piece padded to a row of its own."""
    pieces = [piece for row in rows for piece in row if len(piece) > 1]
    width = max(len(piece) for piece in pieces)
    path = bench.path("score.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"input_ids": [piece + [0] * (width - len(piece)) for piece in pieces],
                   "attention_mask": [[1] * len(piece) + [0] * (width - len(piece))
                                      for piece in pieces]}, file)
    done = json.loads(bench.must(["score", "--model", model, "--inputs", path]))
    found = iter([[-x for x in row if x is not None] for row in done["token_logprobs"]])
    values = [[x for piece in row if len(piece) > 1 for x in next(found)] for row in rows]
    assert [len(row) for row in values] == num_targets(rows)
    return values


def evaluate(bench, model, data, *options):
    return json.loads(bench.must(["eval", "perplexity", "--json", "--model", model, "--data",
                                  bench.path(data), *options]))


def model_of_step(bench, run, step):
    """A folder with that one checkpoint."""
    name = f"step-{step:08}"
    folder = bench.path(f"{run}-{step}")
    shutil.copytree(bench.path(run, "checkpoints", name),
                    os.path.join(folder, "checkpoints", name))
    return folder


def test_loss(binary):
    """A step's loss and gradient are means over all its targets, however it is cut."""
    with Bench(binary, numerics="f32") as bench:
        # Long documents first, then a row and a bit of very short ones.
        with open(bench.path("uneven.jsonl"), "w", encoding="utf-8") as file:
            for text in 4 * [" ".join(60 * ["wind"])] + 70 * ["a"]:
                file.write(json.dumps({"text": text}) + "\n")
        bench.must(["prepare", "--input", bench.path("uneven.jsonl"), "--tokenizer",
                    bench.path("tokenizer.json"), "--output", bench.path("uneven")])
        rows = windows(documents(bench, "uneven"), LENGTH)
        counts = num_targets(rows)
        assert 2 * min(counts) < max(counts), f"the micro-batches must be uneven: {counts}"
        found = []
        # All rows of one epoch are one step: row by row, in lanes, and in one pass.
        for i, (micro, lanes) in enumerate(((1, 1), (1, len(rows)), (len(rows), 1))):
            bench.train(f"cut{i}", f'data.train=["{bench.path("uneven")}"]',
                        "phase.0.tokens=1000000", f"phase.0.sequence_length={LENGTH}",
                        f"phase.0.batch_tokens={LENGTH * len(rows)}",
                        f"phase.0.micro_batch_tokens={LENGTH * micro}", f"parallel.lanes={lanes}",
                        f"phase.1.batch_tokens={64 * len(rows)}", "run.stop_after_steps=1",
                        "metrics.validate_every_steps=0", "data.validation=[]")
            row, = bench.check_metrics(f"cut{i}")
            assert row["batch_tokens"] == sum(counts) == row["tokens"], row
            found.append((row["loss"], row["grad_norm"]))
        for loss, norm in found:
            assert near(loss, found[0][0], 1e-6) and near(norm, found[0][1], 1e-5), found
        # The mean by another way: each piece of a document scored alone.
        # By another way: each piece of a document scored alone. The mean of means is far off.
        values = scored(bench, model_of_step(bench, "cut0", 0), rows)
        want = mean([x for row in values for x in row])
        assert near(found[0][0], want, 1e-5), (found, want)
        assert not near(want, mean([mean(row) for row in values]), 1e-4)


def test_evaluation(binary):
    """Held-out loss counts each target once and depends on nothing but model and tokens."""
    with Bench(binary, numerics="f32") as bench:
        texts = documents(bench, "other")
        targets = sum(len(text) - 1 for text in texts)
        bench.train("a", "run.stop_after_steps=3")
        bench.train("b", "run.stop_after_steps=3", "phase.0.batch_tokens=512",
                    "phase.0.micro_batch_tokens=128", "run.threads=1")
        for run in ("a", "b"):
            # The training's own evaluation knows another batch size: same bits.
            inside = bench.metrics(run)[-1]["validation_loss"]
            outside = evaluate(bench, bench.path(run), "validation", "--dtype", "f32")
            assert inside == outside["loss"], (inside, outside)
        model = bench.path("a")
        once = evaluate(bench, model, "other", "--dtype", "f32", "--sequence-length", str(LENGTH))
        for options in ((), ("--threads", "1"), ("--threads", "3")):
            again = evaluate(bench, model, "other", "--dtype", "f32", "--sequence-length",
                             str(LENGTH), *options)
            assert again == once, (again, once)
        # Several batches, the last one partial, its last row padded.
        rows = windows(texts, LENGTH)
        assert len(rows) * LENGTH > 4096 and len(rows) * LENGTH % 4096 != 0
        assert sum(len(text) for text in texts) % LENGTH != 1
        values = [x for row in scored(bench, model, rows) for x in row]
        assert once["num_tokens"] == targets == len(values), (once, targets, len(values))
        assert near(once["loss"], mean(values), 1e-5), (once, mean(values))


def test_observation(binary):
    """Evaluation, samples and saves leave no trace in the losses, and a stop none in the rates."""
    with Bench(binary) as bench:
        bench.train("blind", "run.stop_after_steps=12", "metrics.validate_every_steps=0",
                    "metrics.sample_every_steps=0", "checkpoint.every_steps=0")
        bench.train("seen", "run.stop_after_steps=12", "metrics.validate_every_steps=1",
                    "metrics.sample_every_steps=2", "checkpoint.every_steps=1")
        want = [row[:-1] for row in losses(bench.check_metrics("blind"))]
        assert [row[:-1] for row in losses(bench.check_metrics("seen"))] == want
        for row in bench.metrics("seen"):
            assert row["peak_fraction"] is None or 0 < row["peak_fraction"] <= 1.5, row
        # A stop point far before the end has the first rates of the whole schedule.
        bench.train("long", "run.stop_after_steps=3")
        assert [row[:-1] for row in losses(bench.check_metrics("long"))] == want[:3]


def test_spikes(binary):
    """A leap of the loss is reported with its step, token file and document; bits stay the same."""
    with Bench(binary) as bench:
        # Among usual documents one of a single letter, which never stands alone elsewhere.
        with open(bench.path("other.jsonl"), encoding="utf-8") as file:
            lines = file.readlines()
        odd = 17
        lines[odd] = json.dumps({"text": "Z" * 128}) + "\n"
        with open(bench.path("odd.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(lines)
        bench.must(["prepare", "--input", bench.path("odd.jsonl"), "--tokenizer",
                    bench.path("tokenizer.json"), "--output", bench.path("odd")])
        options = (f'data.train=["{bench.path("train")}", "{bench.path("odd")}"]',
                   "phase.0.tokens=40000", "phase.0.sequence_length=128",
                   "phase.0.micro_batch_tokens=128", "run.seed=3", "metrics.validate_every_steps=0",
                   "metrics.sample_every_steps=0", "checkpoint.every_steps=0",
                   "run.stop_after_steps=110")
        text = bench.train("run", *options)
        found = [line for line in text.splitlines() if "deviations" in line]
        assert found and all(f"document {odd} of {bench.path('odd')} " in line
                             and " above what " in line for line in found), found
        step = int(found[0].split("step ")[1].split(":")[0])
        # The loss of that step stands out in metrics.jsonl, too.
        values = [row["loss"] for row in bench.check_metrics("run")]
        assert values[step - 1] > max(values[step - 9:step - 1]), (step, values)
        with open(bench.path("run", "log.txt"), encoding="utf-8") as file:
            assert found[0].split("step ")[1] in file.read()
        tokens = bench.must(["dataset", "dump", bench.path("odd"), "--first", str(odd),
                             "--documents", "1"])
        assert tokens.startswith(f"document {odd} ") and len(set(tokens.split()[4:-1])) == 1, tokens
        # A run that was stopped right before knows the losses until then.
        bench.train("stopped", *options[:-1], f"run.stop_after_steps={step - 1}")
        again = bench.train("stopped", *options)
        assert [line for line in again.splitlines() if "deviations" in line] == found, again
        assert "deviations" not in bench.train("blind", *options, "metrics.spike_z_score=0")
        assert bench.digest("run") == bench.digest("stopped") == bench.digest("blind")


def test_epochs(binary):
    """Restarts around the ends of epochs, with one source and with two of unlike weight."""
    with Bench(binary) as bench:
        # One step is one epoch: each target once, in each epoch.
        texts = documents(bench, "validation")
        rows = len(windows(texts, LENGTH))
        options = (f'data.train=["{bench.path("validation")}"]',
                   f"phase.0.sequence_length={LENGTH}", "metrics.validate_every_steps=0",
                   "metrics.sample_every_steps=0")
        whole = (f"phase.0.batch_tokens={LENGTH * rows}", "phase.0.micro_batch_tokens=0",
                 "phase.0.tokens=1000000")
        for stop in (1, 4):
            bench.train("whole", *options, *whole, f"run.stop_after_steps={stop}")
        counts = [row["batch_tokens"] for row in bench.check_metrics("whole")]
        assert counts == 4 * [sum(len(text) - 1 for text in texts)], counts
        # Eight rows a step: the first epoch ends within step rows // 8 + 1.
        sources = f'data.train=["{bench.path("validation")}", "{bench.path("other")}"]'
        for name, more in (("one", ()), ("two", (sources, "data.weights=[0.95, 0.05]"))):
            bench.train(name, *options, *more)
            want = losses(bench.check_metrics(name))
            assert len(want) * 8 > 2 * rows, "two epochs at least"
            for stop in (rows // 8 - 1, rows // 8, rows // 8 + 1, rows // 4, rows // 4 + 1):
                bench.train(name + "-stops", *options, *more, f"run.stop_after_steps={stop}")
            bench.train(name + "-stops", *options, *more)
            assert bench.digest(name + "-stops") == bench.digest(name), name
            found = losses(bench.check_metrics(name + "-stops"))
            assert [row[:-1] for row in found] == [row[:-1] for row in want], name


def test_saving(binary):
    """What a slow save writes is the state at its step, not a later one."""
    with Bench(binary) as bench:
        bench.train("slow", "run.fault_point=checkpoint.tensors.write=sleep:60",
                    "checkpoint.every_steps=1", "checkpoint.keep=100", "run.stop_after_steps=6")
        assert len(bench.steps("slow")) == 7, bench.steps("slow")
        for stop in (1, 4, 6):
            bench.train("still", "checkpoint.every_steps=0", f"run.stop_after_steps={stop}")
            found = bench.must(["checkpoint", "digest",
                                bench.path("slow", "checkpoints", f"step-{stop:08}")]).strip()
            assert found == bench.digest("still"), f"step {stop}"


def test_retention(binary):
    """However saves and damage follow each other, a good checkpoint is there."""
    with Bench(binary) as bench:
        bench.train("untouched")
        want = bench.digest("untouched")
        bench.train("run", "checkpoint.every_steps=2", "checkpoint.keep=2",
                    "run.stop_after_steps=6")
        assert bench.steps("run") == ["step-00000004", "step-00000006"]
        damage_cases(bench.path("run", "checkpoints", "step-00000006"))[0][1]()
        # The disk is full: the only good one stays.
        text = bench.train("run", "run.fault_point=checkpoint.tensors.write=enospc",
                           "checkpoint.every_steps=1", "checkpoint.keep=1",
                           "run.stop_after_steps=5", expect=6)
        assert "falling back" in text and "step-00000004" in bench.steps("run"), text
        # Killed between publishing and pruning, and while pruning: one is good at each moment.
        for point in ("checkpoint.after_rename", "checkpoint.before_prune", "checkpoint.prune"):
            done = subprocess.run(
                bench.command("run", f"run.fault_point={point}=kill", "checkpoint.every_steps=1",
                              "checkpoint.keep=1"), capture_output=True, text=True, timeout=120)
            assert done.returncode == 137, f"{point}: {done.returncode} {done.stderr}"
            good = [name for name in bench.steps("run") if subprocess.run(
                [binary, "checkpoint", "verify", bench.path("run", "checkpoints", name)],
                capture_output=True).returncode == 0]
            assert good, f"{point}: none of {bench.steps('run')} is good"
        bench.train("run", "checkpoint.keep=1")
        assert bench.digest("run") == want
        bench.check_metrics("run")


def test_skips(binary):
    """The count of skipped steps survives a restart; a run stopped amid skips goes on."""
    with Bench(binary) as bench:
        poison = "run.fault_point=train.loss=eio"
        bench.train("run", poison + "@3", "run.max_skipped_steps=4", "run.stop_after_steps=5")
        shutil.copytree(bench.path("run"), bench.path("healed"))
        # Three were skipped before the stop: one more is the limit.
        text = bench.train("run", poison, "run.max_skipped_steps=4", expect=5)
        assert "step 6: 4 steps in a row" in text, text
        bench.must(["checkpoint", "verify", bench.path("run")])
        bench.train("healed", "run.max_skipped_steps=4", "run.stop_after_steps=8")
        rows = bench.check_metrics("healed")
        assert [row["is_skipped"] for row in rows] == 2 * [False] + 3 * [True] + 3 * [False]
        assert rows[4]["tokens"] == rows[1]["tokens"] and rows[4]["learning_rate"] > 0
        assert rows[7]["tokens"] + rows[7]["skipped_tokens"] == sum(r["batch_tokens"] for r in rows)


def test_targets(binary):
    """A step without any target has no loss and moves nothing."""
    with Bench(binary) as bench:
        with open(bench.path("short.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": "a"}) + "\n" for _ in range(400))
            file.write(json.dumps({"text": "the river runs to sea " * 8}) + "\n")
        bench.must(["prepare", "--input", bench.path("short.jsonl"), "--no-append-eod",
                    "--tokenizer", bench.path("tokenizer.json"), "--output", bench.path("short")])
        bench.train("run", f'data.train=["{bench.path("short")}"]', "phase.0.batch_tokens=32",
                    "phase.0.micro_batch_tokens=32", "run.stop_after_steps=24",
                    "checkpoint.every_steps=1", "checkpoint.keep=100",
                    "metrics.sample_every_steps=0")
        rows = bench.check_metrics("run")
        idle = [row for row in rows if row["batch_tokens"] == 0]
        assert 0 < len(idle) < len(rows), [row["batch_tokens"] for row in rows]
        digests = [bench.must(["checkpoint", "digest", "--weights",
                               bench.path("run", "checkpoints", f"step-{step:08}")])
                   for step in range(len(rows) + 1)]
        for row in rows:
            is_idle = row["batch_tokens"] == 0
            assert (row["loss"] is None) == is_idle and not row["is_skipped"], row
            assert (digests[row["step"]] == digests[row["step"] - 1]) == is_idle, row


def test_clock(binary):
    """Rates count steps alone, no evaluation and no saves; waiting for data is told apart."""
    with Bench(binary) as bench:
        many = ", ".join(f'"{bench.path("train")}"' for _ in range(6))
        began = time.time()
        bench.train("run", "run.stop_after_steps=4", "metrics.validate_every_steps=1",
                    f"data.validation=[{many}]", "checkpoint.every_steps=1",
                    "run.fault_point=checkpoint.tensors.write=sleep:20")
        seconds = time.time() - began
        rows = bench.check_metrics("run")
        for row in rows:
            assert near(row["tokens_per_second"] * row["step_seconds"], row["batch_tokens"], 1e-6)
        in_steps = sum(row["step_seconds"] for row in rows)
        between = rows[-1]["time_unix"] - rows[0]["time_unix"]
        assert in_steps < 0.7 * seconds and between > sum(r["step_seconds"] for r in rows[1:]), (
            in_steps, between, seconds)
        # Each micro-batch, four a step, comes 200 ms late.
        bench.train("late", "run.stop_after_steps=3", "run.fault_point=data.load=sleep:200",
                    "metrics.validate_every_steps=0")
        for row in bench.check_metrics("late")[1:]:
            assert 0.1 < row["data_seconds"] < row["step_seconds"], row
            assert near(row["tokens_per_second"] * row["step_seconds"], row["batch_tokens"], 1e-6)


def stopped(bench, run, wait, number, *overrides):
    """Signals the run twice once `wait` holds; returns the seconds until the end."""
    with open(bench.path("stderr"), "w+", encoding="utf-8") as stderr:
        process = subprocess.Popen(bench.command(run, *overrides), stderr=stderr)
        began = time.time()
        while not wait() and time.time() < began + 60:
            assert process.poll() is None, "it ended before the signal"
            time.sleep(0.02)
        time.sleep(0.2)
        process.send_signal(number)
        sent = time.time()
        time.sleep(0.1)
        process.send_signal(number)  # impatience does not cost the save
        process.wait(timeout=60)
        stderr.seek(0)
        text = stderr.read()
        assert process.returncode == 128 + number, f"exit {process.returncode}\n{text}"
        return time.time() - sent


def test_stopping(binary):
    """A signal is heard in every phase of a run, and the save on the way out is complete."""
    with Bench(binary) as bench:
        many = ", ".join(f'"{bench.path("train")}"' for _ in range(300))

        # From the first step's checkpoint on, the second step and what follows it is under way.
        phases = [("evaluation", signal.SIGTERM, ("metrics.validate_every_steps=2",
                                                  f"data.validation=[{many}]")),
                  ("sample", signal.SIGINT, ("metrics.sample_every_steps=2",
                                             "metrics.sample_tokens=3000",
                                             "data.validation=[]")),
                  ("save", signal.SIGTERM, ("data.validation=[]",
                                            "run.fault_point=checkpoint.before_verify=sleep:700"))]
        for name, number, overrides in phases:
            first = bench.path(name, "checkpoints", "step-00000001")
            seconds = stopped(bench, name, lambda path=first: os.path.isdir(path), number,
                              "checkpoint.every_steps=1", *overrides)
            assert seconds < 8, f"{name}: {seconds:.1f} s after the signal"
            rows = bench.check_metrics(name)
            assert bench.steps(name)[-1] == f"step-{rows[-1]['step']:08}", name
            bench.must(["checkpoint", "verify", bench.path(name, "checkpoints",
                                                           bench.steps(name)[-1])])
            if name == "evaluation":
                assert "validation_loss" not in rows[-1], "the signal came after the evaluation"


def test_refusals(binary):
    """Token files of another tokenizer, changed data, and data without any target."""
    with Bench(binary) as bench:
        def refused(pattern, run, *overrides, command=None):
            done = subprocess.run(command or bench.command(run, *overrides), capture_output=True,
                                  text=True, timeout=60)
            last = (done.stderr.strip().splitlines() or [""])[-1]
            assert done.returncode == 2 and pattern in last, (done.returncode, done.stderr)

        with open(bench.path("tokenizer.json"), encoding="utf-8") as file:
            tokenizer = json.load(file)
        tokenizer["added_tokens"].append(dict(tokenizer["added_tokens"][0], id=300, content="<x>"))
        os.mkdir(bench.path("x"))
        with open(bench.path("x", "tokenizer.json"), "w", encoding="utf-8") as file:
            json.dump(tokenizer, file)
        bench.must(["prepare", "--input", bench.path("other.jsonl"), "--tokenizer",
                    bench.path("x", "tokenizer.json"), "--output", bench.path("foreign")])
        foreign = f'["{bench.path("foreign")}"]'
        other = "was made with another tokenizer"
        refused(other, "new", f"data.train={foreign}")
        refused(other, "new", f"data.validation={foreign}")
        refused(other, "new", 'data.tokenizer=""',
                f'data.train=["{bench.path("train")}", "{bench.path("foreign")}"]')
        refused(other, "new", 'data.tokenizer=""', f"data.validation={foreign}",
                "metrics.sample_every_steps=0")
        assert not os.path.exists(bench.path("new", "checkpoints"))
        bench.train("run", "run.stop_after_steps=3")
        refused(other, "run", command=[binary, "eval", "perplexity", "--model", bench.path("run"),
                                       "--data", bench.path("foreign")])
        refused("outside the vocabulary of 320", "run",
                command=[binary, "generate", "--model", bench.path("run"), "--input-ids", "3 320"])
        # The definition of the schedule belongs to the run.
        refused("phase.0.warmup_tokens was 500", "run", "phase.0.warmup_tokens=600")
        refused('phase.1.schedule was "linear"', "run", "phase.1.schedule=cosine")
        # The same prefix holds less than before: both ways out work.
        for ending in (".bin", ".idx", ".json"):
            shutil.copy(bench.path("validation" + ending), bench.path("train" + ending))
        refused("is not the data this run was trained on", "run")
        text = bench.train("run", flags=("--accept-changes",))
        assert "accepted: data.train" in text, text
        # No document has a second token: there is nothing to predict.
        with open(bench.path("short.jsonl"), "w", encoding="utf-8") as file:
            file.write('{"text": "a"}\n' * 50)
        bench.must(["prepare", "--input", bench.path("short.jsonl"), "--tokenizer",
                    bench.path("tokenizer.json"), "--output", bench.path("short"),
                    "--no-append-eod"])
        refused("nothing to predict", "empty", f'data.train=["{bench.path("short")}"]')
        bench.train("joined", f'data.train=["{bench.path("short")}"]', "run.stop_after_steps=2",
                    "data.document_isolation=false")


def sparse_tokens(prefix, num_tokens, tail, documents):
    """Zeros and then `tail`, without room on the disk; documents are (first token, tokens)."""
    with open(prefix + ".bin", "wb") as file:
        file.truncate(2 * (num_tokens - len(tail)))
        file.seek(0, os.SEEK_END)
        file.write(struct.pack(f"<{len(tail)}H", *tail))
    count = len(documents)
    with open(prefix + ".idx", "wb") as file:
        file.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, count, count + 1))
        file.write(struct.pack(f"<{count}i", *[length for _, length in documents]))
        file.write(struct.pack(f"<{count}q", *[2 * first for first, _ in documents]))
        file.write(struct.pack(f"<{count + 1}q", *range(count + 1)))


def limited(kind, num_bytes):
    return lambda: resource.setrlimit(kind, (num_bytes, num_bytes))


def test_sizes(binary):
    """Extents of one, files beyond 4 GiB, and products beyond 64 bits."""
    with Bench(binary, numerics="f32") as bench:
        ones = ["hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                "num_experts", "moe_intermediate_size", "router_hidden_size"]
        bench.train("ones", *[f"model.{name}=1" for name in ones], "model.head_dim=2",
                    "model.partial_rotary_factor=1", "phase.0.sequence_length=1",
                    "phase.0.batch_tokens=1", "phase.0.micro_batch_tokens=0",
                    "run.stop_after_steps=3", "data.document_isolation=false")
        assert all(0 < row["loss"] < 20 for row in bench.check_metrics("ones"))
        # The second document lies behind 5 GiB.
        size, tail = 5 << 29, list(range(1, 101))
        sparse_tokens(bench.path("large"), size, tail, [(0, 100), (size - 100, 100)])
        assert documents(bench, "large") == [[0] * 100, tail]
        bench.train("large", f'data.train=["{bench.path("large")}"]', 'data.tokenizer=""',
                    "run.stop_after_steps=2")
        # The order of 40 million samples takes no memory of its own.
        sparse_tokens(bench.path("many"), 40 << 20, [], [(0, 40 << 20)])
        done = subprocess.run(
            bench.command("many", f'data.train=["{bench.path("many")}"]', 'data.tokenizer=""',
                          "phase.0.sequence_length=1", "run.stop_after_steps=2"),
            capture_output=True, text=True, preexec_fn=limited(resource.RLIMIT_DATA, 160 << 20))
        assert done.returncode == 0, done.stderr
        header = json.dumps({
            "a": {"dtype": "F32", "shape": [5 << 18, 1024], "data_offsets": [0, 5 << 30]},
            "b": {"dtype": "F32", "shape": [2], "data_offsets": [5 << 30, (5 << 30) + 8]}})
        header = header.encode() + b" " * (-len(header) % 8)
        path = bench.path("large.safetensors")
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            file.truncate(8 + len(header) + (5 << 30) + 8)
        assert "5.0 GiB" in bench.must(["checkpoint", "verify", path])
        os.truncate(path, os.path.getsize(path) - 4)
        done = subprocess.run([binary, "checkpoint", "verify", path], capture_output=True)
        assert done.returncode == 3, done.stderr
        wide = ["model.hidden_size=16777216", "model.moe_intermediate_size=16777216"]
        for huge in ([*wide, "model.num_experts=65536"], [*wide, "model.num_experts=16384"],
                     [*wide, "model.num_experts=65536", "model.num_hidden_layers=100000"],
                     ["model.hidden_size=4194304", "model.moe_intermediate_size=4194304",
                      "model.num_experts=65536"],
                     ["phase.0.batch_tokens=1000000000000", "phase.0.micro_batch_tokens=0"]):
            done = subprocess.run(bench.command("huge", *huge), capture_output=True, text=True,
                                  timeout=30, preexec_fn=limited(resource.RLIMIT_AS, 4 << 30))
            assert done.returncode == 2, (huge, done.returncode, done.stderr)
            assert not os.path.exists(bench.path("huge")), huge


def test_options(binary):
    """Every pair of options of a step works, or is refused with the key that has to change."""
    choices = [("optimizer.kind", ("muon", "adamw")), ("run.numerics", ("f32", "bf16")),
               ("optimizer.muon_dtype", ("auto", "f32", "bf16")),
               ("run.recompute", ("none", "blocks")), ("data.order", ("shuffled", "megatron")),
               ("data.document_isolation", ("true", "false")), ("parallel.lanes", ("1", "4"))]
    with Bench(binary) as bench:
        pairs = {frozenset([(a, x), (b, y)]) for a, xs in choices for x in xs
                 for b, ys in choices if a < b for y in ys}
        number = num_refused = 0
        while pairs:
            # Greedily the set of options that tries most of the pairs that are left.
            best = max(itertools.product(*[[(key, value) for value in values]
                                           for key, values in choices]),
                       key=lambda all: sum(pair <= set(all) for pair in pairs))
            pairs -= {pair for pair in pairs if pair <= set(best)}
            number += 1
            overrides = [f"{key}={value}" for key, value in best]
            done = subprocess.run(bench.command(f"run{number}", *overrides,
                                                "run.stop_after_steps=2", "data.validation=[]"),
                                  capture_output=True, text=True, timeout=60)
            if done.returncode == 2:
                num_refused += 1
                assert "optimizer.muon_dtype" in done.stderr, (overrides, done.stderr)
                # Only this set was refused: its other pairs are tried with the default.
                rest = tuple(choice for choice in best if choice[0] != "optimizer.muon_dtype")
                done = subprocess.run(bench.command(f"rest{number}", *[f"{k}={v}" for k, v in rest],
                                                    "run.stop_after_steps=2"),
                                      capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, (overrides, done.stderr)
        print(f"{number} sets of options, {num_refused} refused")


def main():
    test = globals().get("test_" + sys.argv[3]) if len(sys.argv) == 4 else None
    if test is None or sys.argv[1] != "--binary":
        print(__doc__)
        return 2
    test(os.path.abspath(sys.argv[2]))
    print(f"{sys.argv[3]}: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())

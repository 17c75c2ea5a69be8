#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole runs of the binary under kills, signals, full disks and wrong uses.

usage: run_tests.py --binary ZAYA GROUP     (kills bits signals faults refusals state logs)
"""
import hashlib
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Bench  # noqa: E402


def folder_hash(path):
    digest = hashlib.sha256()
    for base, _, names in sorted(os.walk(path)):
        for name in sorted(names):
            full = os.path.join(base, name)
            digest.update(full.encode())
            with open(full, "rb") as file:
                digest.update(file.read())
    return digest.hexdigest()


def losses(rows):
    return [(row["step"], row["loss"], row["grad_norm"], row["learning_rate"], row["tokens"],
             row.get("validation_loss")) for row in rows]


def test_kills(binary):
    """30 kills at random moments and at every planned point of a save change nothing."""
    with Bench(binary) as bench:
        began = time.time()
        bench.train("untouched")
        seconds = time.time() - began
        want, want_rows = bench.digest("untouched"), losses(bench.check_metrics("untouched"))
        rng = random.Random(int(os.environ.get("ZAYA_TEST_SEED", "11")))
        kills = 0
        while kills < 30:
            process = subprocess.Popen(bench.command("killed"), stderr=subprocess.DEVNULL)
            try:
                process.wait(timeout=rng.uniform(0.02, seconds * 0.6))
                # It got to the end before the kill: begin anew.
                assert process.returncode == 0, process.returncode
                assert bench.digest("killed") == want
                shutil.rmtree(bench.path("killed"))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
        points = ["checkpoint.tensors.write", "checkpoint.tensors.flush", "checkpoint.index.write",
                  "checkpoint.index.flush", "checkpoint.before_rename", "checkpoint.after_rename",
                  "checkpoint.before_prune", "metrics.write", "train.step"]
        for point in points:
            for count in (1, 2, 4):
                fault = f"run.fault_point={point}=kill@{count}"
                done = subprocess.run(bench.command("killed", fault), capture_output=True,
                                      text=True, timeout=120)
                assert done.returncode in (0, 137), f"{point}: exit {done.returncode} {done.stderr}"
                if done.returncode == 0:
                    shutil.rmtree(bench.path("killed"))
        bench.train("killed")
        assert bench.digest("killed") == want, "the digest after kills differs"
        assert losses(bench.check_metrics("killed")) == want_rows, "metrics after kills differ"


def test_bits(binary):
    """Threads, recompute, observation and restarts change no bit; lanes fix the bits."""
    for lanes in (1, 4):
        with Bench(binary, lanes=lanes) as bench:
            bench.train("one", "run.threads=1")
            want = bench.digest("one")
            for threads in (2, 3, 7):
                bench.train(f"threads{threads}", f"run.threads={threads}")
                assert bench.digest(f"threads{threads}") == want, (threads, lanes)
            bench.train("recompute", "run.recompute=blocks")
            assert bench.digest("recompute") == want, "recompute changes bits"
            bench.train("blind", "metrics.validate_every_steps=0", "metrics.sample_every_steps=0",
                        "checkpoint.every_steps=0")
            assert bench.digest("blind") == want, "observation changes training"
            if lanes == 1:
                for stop in range(1, 40):  # one step per process
                    bench.train("stops", f"run.stop_after_steps={stop}")
                bench.train("stops")
                assert bench.digest("stops") == want, "restarts change bits"
                # Each stop ends with an evaluation, so that column alone may differ.
                rows = [row[:-1] for row in losses(bench.check_metrics("stops"))]
                assert rows == [row[:-1] for row in losses(bench.metrics("one"))]
    sets = ["portable", "avx2", "avx512", "avx512_bf16"]
    with Bench(binary) as bench:
        for name in sets:
            done = subprocess.run(bench.command(f"{name}1", f"run.instruction_set={name}",
                                                "run.threads=1"), capture_output=True, text=True)
            if done.returncode == 2 and "processor" in done.stderr:
                print(f"{name}: not on this processor, left out")
                continue
            assert done.returncode == 0, done.stderr
            for threads in (2, 3, 7):
                bench.train(f"{name}{threads}", f"run.instruction_set={name}",
                            f"run.threads={threads}")
                assert bench.digest(f"{name}{threads}") == bench.digest(f"{name}1"), (name, threads)


def test_signals(binary):
    """SIGTERM and SIGINT at any moment: saved, the right exit code, and nothing lost."""
    with Bench(binary) as bench:
        began = time.time()
        bench.train("untouched")
        seconds = time.time() - began
        want = bench.digest("untouched")
        rng = random.Random(5)
        for i in range(16):
            number = (signal.SIGTERM, signal.SIGINT)[i % 2]
            process = subprocess.Popen(bench.command("signalled"), stderr=subprocess.PIPE,
                                       text=True)
            time.sleep(rng.uniform(0.05, seconds * 0.8))
            process.send_signal(number)
            sent = time.time()
            stderr = process.communicate(timeout=30)[1]
            took = time.time() - sent
            if process.returncode == 0:  # it was done already
                assert bench.digest("signalled") == want
                shutil.rmtree(bench.path("signalled"))
                continue
            if process.returncode == -number and not os.path.exists(bench.path("signalled")):
                continue  # before the program had begun
            assert process.returncode == 128 + number, f"exit {process.returncode}: {stderr}"
            assert took < 10, f"{took:.1f} s after the signal"
        bench.train("signalled")
        assert bench.digest("signalled") == want
        bench.check_metrics("signalled")


def test_faults(binary):
    """Full disks and values that are not finite."""
    with Bench(binary) as bench:
        bench.train("untouched")
        want = bench.digest("untouched")
        # The third save and all later ones fail: training goes on, the last one decides the exit.
        text = bench.train("full", "run.fault_point=checkpoint.tensors.write=enospc@3", expect=6)
        assert "No space left" in text and "training goes on" in text, text
        assert len(bench.check_metrics("full")) == len(bench.metrics("untouched"))
        assert bench.steps("full"), "the old checkpoints are gone"
        bench.must(["checkpoint", "verify", bench.path("full")])
        bench.train("full")
        assert bench.digest("full") == want
        # The save of step 8 fails; the run stops there, tries once more and succeeds.
        text = bench.train("retry", "run.fault_point=checkpoint.tensors.open=eio_once@3",
                           "run.stop_after_steps=8")
        assert "training goes on" in text and bench.steps("retry")[-1] == "step-00000008", text
        # metrics.jsonl can't be written: training goes on.
        text = bench.train("quiet", "run.fault_point=metrics.write=enospc@5")
        assert "without metrics" in text and bench.digest("quiet") == want
        # One step that is not finite is skipped: counted, logged, and the schedule stays.
        text = bench.train("skip", "run.fault_point=train.loss=eio_once@7")
        rows = bench.check_metrics("skip")
        assert rows[6]["is_skipped"] and rows[6]["loss"] is None and "step 7" in text
        assert rows[6]["tokens"] == rows[5]["tokens"] and rows[6]["skipped_tokens"] > 0
        good = bench.metrics("untouched")
        rate = rows[7]["learning_rate"]
        assert abs(rate - good[6]["learning_rate"]) < abs(rate - good[7]["learning_rate"]), rate
        # All steps from the ninth on are not finite: exit 5, the checkpoint before is good.
        text = bench.train("poisoned", "run.fault_point=train.loss=eio@9",
                           "run.max_skipped_steps=3", expect=5)
        assert "3 steps in a row" in text, text
        bench.must(["checkpoint", "verify", bench.path("poisoned")])
        assert bench.steps("poisoned")[-1] == "step-00000008"
        bench.train("poisoned")
        assert bench.digest("poisoned") == want


def damage_cases(folder):
    """Ways in which a checkpoint folder is harmed: (name, action)."""
    data = sorted(n for n in os.listdir(folder) if n.endswith(".safetensors"))[0]

    def flip(name, fraction):
        path = os.path.join(folder, name)
        with open(path, "r+b") as file:
            file.seek(int(os.path.getsize(path) * fraction))
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 4]))

    def cut(name):
        path = os.path.join(folder, name)
        os.truncate(path, os.path.getsize(path) // 2)

    return [("flipped data", lambda: flip(data, 0.7)),
            ("flipped header", lambda: flip(data, 0.001)),
            ("flipped index", lambda: flip("index.json", 0.5)),
            ("cut data", lambda: cut(data)), ("cut index", lambda: cut("index.json")),
            ("no data", lambda: os.remove(os.path.join(folder, data))),
            ("no index", lambda: os.remove(os.path.join(folder, "index.json")))]


def test_state(binary):
    """Damaged checkpoints are named and passed over; a finished run changes nothing."""
    with Bench(binary) as bench:
        bench.train("base", "run.stop_after_steps=12")
        bench.train("untouched")
        want = bench.digest("untouched")
        before = folder_hash(bench.path("untouched", "checkpoints"))
        text = bench.train("untouched")
        assert "already complete" in text
        assert folder_hash(bench.path("untouched", "checkpoints")) == before
        newest = bench.steps("base")[-1]
        for i, (name, _) in enumerate(damage_cases(bench.path("base", "checkpoints", newest))):
            run = f"damaged{i}"
            shutil.copytree(bench.path("base"), bench.path(run))
            damage_cases(bench.path(run, "checkpoints", newest))[i][1]()
            done = subprocess.run([binary, "checkpoint", "verify",
                                   bench.path(run, "checkpoints", newest)], capture_output=True,
                                  text=True)
            assert done.returncode == 3, f"{name}: verify exits {done.returncode}"
            text = bench.train(run)
            assert newest in text, f"{name}: the damaged checkpoint is not named\n{text}"
            assert bench.digest(run) == want, name
        run = "all_damaged"
        shutil.copytree(bench.path("base"), bench.path(run))
        for step in bench.steps(run):
            os.remove(bench.path(run, "checkpoints", step, "index.json"))
        text = bench.train(run, expect=3)
        assert len(text.strip().splitlines()) <= 6, text
        # Back to an earlier step: what is later is set aside and nothing continues from it.
        run = "back"
        shutil.copytree(bench.path("base"), bench.path(run))
        text = bench.train(run, "run.stop_after_steps=5", flags=(
            "--resume", bench.path(run, "checkpoints", "step-00000004")))
        assert "set-aside-step-00000012" in text, text
        text = bench.train(run)
        assert "after step 5 " in text and bench.digest(run) == want, text
        # A damaged last line of the metrics.
        with open(bench.path("base", "metrics.jsonl"), "a", encoding="utf-8") as file:
            file.write('{"step": 13, "loss"')
        bench.train("base")
        assert bench.digest("base") == want
        bench.check_metrics("base")


def test_refusals(binary):
    """What must not happen in silence is refused with exit 2 and one line that says what to do."""
    with Bench(binary) as bench:
        bench.train("run", "run.stop_after_steps=6")
        before = folder_hash(bench.path("run"))

        def refused(pattern, *overrides, flags=(), expect=2, run="run"):
            text = bench.train(run, *overrides, flags=flags, expect=expect)
            last = text.strip().splitlines()[-1]
            assert re.search(pattern, last), f"expected {pattern} in: {last}"
            assert folder_hash(bench.path("run")) == before, f"{pattern}: the run was changed"

        refused("optimizer.learning_rate was 0.003 and is now 0.002",
                "optimizer.learning_rate=2e-3")
        refused("phase.0.tokens was 5000", "phase.0.tokens=9000")
        refused("is not the data this run was trained on", f'data.train=["{bench.path("other")}"]')
        refused("holds a run", flags=("--resume", "never"))
        refused("no such token file", 'data.train=["/nowhere/x"]', "run.overwrite=true",
                flags=("--resume", "never"))
        refused("unknown key model.hiden_size; did you mean model.hidden_size",
                "model.hiden_size=64")
        refused("unknown section trian", "trian.x=1")
        refused("multiple of sequence_length", "phase.0.batch_tokens=250", run="new")
        refused("num_attention_heads .* must be a multiple", "model.num_attention_heads=3",
                run="new")
        refused("available", "model.hidden_size=65536", "model.moe_intermediate_size=65536",
                "model.num_experts=64", run="new")
        refused("no such token file", 'data.train=["/nowhere/x"]', run="new")
        refused("vocabulary", "model.vocab_size=100", run="new")
        assert not os.path.exists(bench.path("new", "checkpoints", "step-00000000"))
        # A checkpoint one folder deeper is seen and named, not passed over.
        os.makedirs(bench.path("deep", "2020-01-01"))
        shutil.copytree(bench.path("run", "checkpoints"),
                        bench.path("deep", "2020-01-01", "checkpoints"))
        refused("deeper|2020-01-01", run="deep")
        # Metrics without any checkpoint.
        os.makedirs(bench.path("bare"))
        shutil.copy(bench.path("run", "metrics.jsonl"), bench.path("bare", "metrics.jsonl"))
        refused("no checkpoint to continue from", run="bare")
        # Accepted changes are logged; an overwrite is possible when asked for.
        text = bench.train("run", "optimizer.learning_rate=2e-3", "run.stop_after_steps=7",
                           flags=("--accept-changes",))
        assert "accepted: optimizer.learning_rate" in text
        bench.train("run", "run.overwrite=true", "run.stop_after_steps=2",
                    flags=("--resume", "never"))
        assert len(bench.check_metrics("run")) == 2


def event_points(path):
    """(steps with scalars, step of a restart or None) of a TensorBoard event file"""
    steps, restart = [], None
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        record = data[at + 12:at + 12 + length]
        assert len(data) >= at + 16 + length, "a torn record"
        at += 16 + length
        step, place = 0, 9  # behind the time
        if record[place] == 0x10:
            place, shift, more = place + 1, 0, True
            while more:
                step |= (record[place] & 0x7F) << shift
                more = record[place] >= 0x80
                place, shift = place + 1, shift + 7
        if record[place] == 0x2A:
            steps.append(step)
        elif record[place] == 0x3A:
            restart = step
    return steps, restart


def event_files(folder):
    return sorted(name for name in os.listdir(folder) if name.startswith("events.out.tfevents."))


def fetch(port, path="/metrics"):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def test_logs(binary):
    """Logs that others read leave a run as it is, and say what metrics.jsonl says."""
    with Bench(binary) as bench:
        bench.train("plain")
        want = bench.digest("plain")
        # Killed after step 11, the run continues from step 8: what is said twice counts once.
        bench.train("events", "metrics.tensorboard=true", "run.fault_point=train.step=kill@11",
                    expect=137)
        bench.train("events", "metrics.tensorboard=true")
        assert bench.digest("events") == want
        files = event_files(bench.path("events"))
        assert len(files) == 2, files
        first, restart = event_points(bench.path("events", files[0]))
        assert first == list(range(1, 11)) and restart is None, (first, restart)
        second, restart = event_points(bench.path("events", files[1]))
        assert restart == second[0] and second[0] in (5, 9), (second, restart)
        assert second[-1] == bench.metrics("events")[-1]["step"]
        # A full disk ends the events with one line and nothing else.
        text = bench.train("full", "metrics.tensorboard=true",
                           "run.fault_point=tensorboard.write=enospc@3")
        assert text.count("goes on without TensorBoard events") == 1, text
        assert bench.digest("full") == want
        bench.train("full", "run.overwrite=true", "run.stop_after_steps=2",
                    flags=("--resume", "never"))
        assert event_files(bench.path("full")) == []
        # A port that is in use is refused before anything happens.
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            text = bench.train("taken", flags=("--metrics-port", str(port)), expect=2)
            assert "Address already in use" in text and len(text.splitlines()) == 1, text
            assert not os.path.exists(bench.path("taken"))
        # Figures while it runs; clients change nothing, and a silent one does not hold the end up.
        process = subprocess.Popen(
            bench.command("served", "run.fault_point=train.step=sleep:200",
                          flags=("--metrics-port", "0")),
            stderr=subprocess.PIPE, text=True)
        port = None
        for line in process.stderr:
            match = re.search(r"metrics at http://127\.0\.0\.1:(\d+)/metrics", line)
            port = port or (match and int(match[1]))
            if line.startswith("step 2 "):
                break
        assert port, "no port was logged"
        kind, text = fetch(port)
        assert kind == "text/plain; version=0.0.4; charset=utf-8", kind
        figures = dict(line.split() for line in text.splitlines() if not line.startswith("#"))
        assert float(figures["zaya_steps_total"]) >= 1, text
        assert 0 < float(figures["zaya_loss"]) < 20, text
        try:
            fetch(port, "/other")
            raise AssertionError("another path was served")
        except urllib.error.HTTPError as error:
            assert error.code == 404, error
        with socket.create_connection(("127.0.0.1", port)) as silent:
            silent.sendall(b"GET /met")
            process.send_signal(signal.SIGTERM)
            sent = time.time()
            stderr = process.communicate(timeout=30)[1]
            took = time.time() - sent
        assert process.returncode == 143, f"exit {process.returncode}: {stderr}"
        assert took < 10, f"{took:.1f} s after the signal"
        bench.train("served", "metrics.port=0")
        assert bench.digest("served") == want


def main():
    if len(sys.argv) != 4 or sys.argv[1] != "--binary":
        print(__doc__)
        return 2
    test = globals().get("test_" + sys.argv[3])
    if test is None:
        print(__doc__)
        return 2
    test(os.path.abspath(sys.argv[2]))
    print(f"{sys.argv[3]}: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())

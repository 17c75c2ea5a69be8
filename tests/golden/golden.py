#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The losses of a small run, step by step, against kept values.

usage: golden.py --binary ZAYA [--renew REASON]

The run takes 50 steps with Muon + AdamW in f32. Library products round differently on different
processors, hence the bound. A change that moves the curve renews the values and says why.
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "resume"))
from harness import Bench  # noqa: E402

VALUES = os.path.join(HERE, "losses.json")
BOUND = 2e-3
STEPS = 50


def measure(binary):
    with Bench(binary, numerics="f32") as bench:
        bench.train("golden", f"run.stop_after_steps={STEPS}", "phase.0.tokens=20000",
                    "checkpoint.every_steps=0", "metrics.sample_every_steps=0")
        return [row["loss"] for row in bench.check_metrics("golden")]


def renew(losses, reason):
    values = {"renewed": []}
    if os.path.exists(VALUES):
        with open(VALUES, encoding="utf-8") as file:
            values = json.load(file)
    values["renewed"].append(reason)
    values["losses"] = [round(loss, 6) for loss in losses]
    with open(VALUES, "w", encoding="utf-8") as file:
        json.dump(values, file, indent=1)
        file.write("\n")
    print(f"{VALUES}: renewed, {reason}")


def compare(losses):
    with open(VALUES, encoding="utf-8") as file:
        kept = json.load(file)["losses"]
    if len(kept) != len(losses):
        sys.exit(f"{len(losses)} steps, {len(kept)} kept values")
    worst = max(range(STEPS), key=lambda i: abs(losses[i] / kept[i] - 1))
    deviation = abs(losses[worst] / kept[worst] - 1)
    print(f"largest deviation {deviation:.2e} at step {worst + 1}")
    if not deviation <= BOUND:
        sys.exit(f"step {worst + 1}: loss {losses[worst]:.6f}, kept {kept[worst]:.6f}; if the "
                 "change is meant, ./dev golden --reason TEXT renews the values")


def main():
    arguments = sys.argv[1:]
    if len(arguments) < 2 or arguments[0] != "--binary":
        sys.exit(__doc__)
    losses = measure(arguments[1])
    if arguments[2:3] == ["--renew"] and len(arguments) == 4:
        renew(losses, arguments[3])
    elif len(arguments) == 2:
        compare(losses)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()

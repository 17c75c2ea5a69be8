#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Greedy text equals the argmax of scored logits, by the commands `zaya generate` and `zaya score`.

usage: greedy.py --binary ZAYA FOLDER...

For each model folder 200 tokens are generated one by one from cached state; then all of them are
scored in one pass. Every token has to be the most likely one, lowest id on a tie.
"""
import array
import json
import os
import struct
import subprocess
import sys
import tempfile

PROMPT, COUNT = "3 5 7 11 13", 200


def run(binary, *words):
    done = subprocess.run([binary, *words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}: {done.stderr}")
    return done.stdout


def read_logits(path):
    """Rows of the f32 tensor "logits" [1, S, V]."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        entry = json.loads(file.read(size))["logits"]
        begin, end = entry["data_offsets"]
        file.seek(8 + size + begin)
        values = array.array("f", file.read(end - begin))
    width = entry["shape"][2]
    return [values[i:i + width] for i in range(0, len(values), width)]


def check(binary, folder, scratch):
    text = run(binary, "generate", "--model", folder, "--input-ids", PROMPT, "--dtype", "f32",
               "--ignore-eos", "--temperature", "0", "--max-new-tokens", str(COUNT), "--json")
    generated = json.loads(text)["ids"]
    prompt = [int(word) for word in PROMPT.split()]
    inputs, dump = os.path.join(scratch, "inputs.json"), os.path.join(scratch, "dump.safetensors")
    with open(inputs, "w", encoding="utf-8") as file:
        json.dump({"input_ids": [prompt + generated]}, file)
    run(binary, "score", "--model", folder, "--inputs", inputs, "--dtype", "f32", "--dump", dump)
    rows = read_logits(dump)
    if len(generated) != COUNT or len(rows) != len(prompt) + COUNT:
        sys.exit(f"{folder}: {len(generated)} tokens, {len(rows)} rows of logits")
    for i, token in enumerate(generated):
        row = rows[len(prompt) + i - 1]
        best = max(row)
        if row.index(best) != token:
            sys.exit(f"{folder}: token {i} is {token} ({row[token]}), the logits say "
                     f"{row.index(best)} ({best})")
    print(f"{folder}: {COUNT} tokens agree")


def main():
    if len(sys.argv) < 4 or sys.argv[1] != "--binary":
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="zaya-greedy-") as scratch:
        for folder in sys.argv[3:]:
            check(sys.argv[2], folder, scratch)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs command-line cases; their form is in README.md beside this file.

usage: run_cases.py --binary build/dev/zaya CASE...

Exit status: 0 passed, 1 failed, 77 left out because something required is not there.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TIME_LIMIT_SECONDS = 60
LEFT_OUT = 77
EXPECTATION = re.compile(r"(stdout|stderr)([~!]?) (.+)")


class Step:
    """One command and what is expected of it."""

    def __init__(self, line, command):
        self.line = line
        self.command = command
        self.status = 0
        self.expectations = []  # (line number, stream, mark, text)


class CaseError(Exception):
    """A case file that can't be read, or a surprise; the text says which line."""


def parse(path):
    """(required paths, files as name -> text, steps)"""
    required, files, steps = [], {}, []
    file = None
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.rstrip("\n")
            if line.startswith("|") and file is not None:
                files[file] += line[2:] + "\n"
                continue
            file = None
            expectation = EXPECTATION.fullmatch(line)
            if not line.strip() or line.startswith("#"):
                continue
            if line.startswith("$ "):
                steps.append(Step(number, line[2:]))
            elif line.startswith("requires "):
                required.append(os.path.expandvars(line[9:].strip()))
            elif line.startswith("file "):
                file = line[5:].strip()
                files[file] = ""
            elif steps and re.fullmatch(r"exit \d+", line):
                steps[-1].status = int(line[5:])
            elif steps and expectation:
                steps[-1].expectations.append((number, *expectation.groups()))
            else:
                raise CaseError(f"{path}:{number}: not a line of a case: {line}")
    if not steps:
        raise CaseError(f"{path}: no command in it")
    return required, files, steps


def fulfilled(mark, text, lines):
    if not mark and text == "empty":
        return not lines
    if not mark and re.fullmatch(r"lines \d+", text):
        return len(lines) == int(text[6:])
    if mark == "~":
        return any(re.fullmatch(text, line) for line in lines)
    return any(text in line for line in lines) != (mark == "!")


def run_step(path, step, folder, environment):
    try:
        done = subprocess.run(["sh", "-c", step.command], cwd=folder, env=environment, text=True,
                              errors="replace", stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=TIME_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        raise CaseError(f"{path}:{step.line}: took more than {TIME_LIMIT_SECONDS} s: "
                        f"{step.command}") from None
    surprises = []
    if done.returncode != step.status:
        surprises.append(f"{path}:{step.line}: exit status {done.returncode}, not {step.status}")
    for line, stream, mark, text in step.expectations:
        written = done.stdout if stream == "stdout" else done.stderr
        if not fulfilled(mark, text, written.splitlines()):
            surprises.append(f"{path}:{line}: not so: {stream}{mark} {text}")
    if surprises:
        raise CaseError("\n".join(surprises) + f"\n$ {step.command}\n--- stdout\n"
                        f"{done.stdout[-4000:]}--- stderr\n{done.stderr[-4000:]}---")


def run_case(path, binary):
    """The number of commands run, or None when the case is left out."""
    required, files, steps = parse(path)
    for needed in required:
        if not os.path.exists(needed):
            print(f"{path}: left out: {needed} is not there")
            return None
    with tempfile.TemporaryDirectory(prefix="zaya-case-") as scratch:
        folder, programs = os.path.join(scratch, "work"), os.path.join(scratch, "bin")
        os.mkdir(folder)
        os.mkdir(programs)
        os.symlink(os.path.abspath(binary), os.path.join(programs, "zaya"))
        for name, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        environment = dict(os.environ, PATH=programs + os.pathsep + os.environ["PATH"])
        for step in steps:
            run_step(path, step, folder, environment)
    return len(steps)


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--binary", required=True)
    parser.add_argument("cases", nargs="+")
    options = parser.parse_args()
    os.environ["ZAYA_SOURCE"] = SOURCE
    os.environ["ZAYA_TEST_DATA"] = os.path.join(SOURCE, "tests", "data")
    os.environ["ZAYA_SHARED_FIXTURES"] = os.path.normpath(
        os.path.join(SOURCE, "..", "shared", "fixtures"))
    num_failed = num_left_out = 0
    for path in options.cases:
        try:
            num_steps = run_case(path, options.binary)
            if num_steps is None:
                num_left_out += 1
            else:
                print(f"{path}: {num_steps} commands as expected")
        except CaseError as error:
            print(error)
            num_failed += 1
    if num_failed:
        return 1
    return LEFT_OUT if num_left_out == len(options.cases) else 0


if __name__ == "__main__":
    sys.exit(main())

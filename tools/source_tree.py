# SPDX-License-Identifier: Apache-2.0
"""What the checking tools share: which files there are, and C++ text without its comments."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def files(*suffixes, under=("",)):
    """Paths (from the root) of the working tree, also those that git does not know yet."""
    command = ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True)
    if listed.returncode == 0:
        names = listed.stdout.decode().split("\0")
    else:
        names = []
        for folder, folders, here in os.walk(ROOT):
            folders[:] = [name for name in folders if name not in (".git", "build", "runs")]
            names += [os.path.relpath(os.path.join(folder, name), ROOT) for name in here]
    return sorted({name for name in names if name.endswith(suffixes) and name.startswith(under)
                   and os.path.isfile(os.path.join(ROOT, name))})


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'", re.DOTALL)


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def code_only(text):
    """The text with comments and literals blanked out; lines and columns stay."""
    return TOKEN.sub(blank, text)


def finish(name, problems, summary):
    """Prints one line per problem, or the summary; the exit status for sys.exit()."""
    for problem in problems:
        print(problem)
    print(f"{name}: {len(problems)} problems" if problems else f"{name}: {summary}")
    sys.stdout.flush()
    return 1 if problems else 0

#!/usr/bin/env python3
"""Sizes that a formatter does not hold: files of at most 600 lines, lines of at most 100 columns.

Functions are measured by clang-tidy. Data and prose are not source, so only code is looked at.
"""
import pathlib
import subprocess
import sys

MAX_LINES = 600
MAX_COLUMNS = 100
CODE = {".hpp", ".cpp", ".cmake", ".py", ".sh", ".js", ".css"}
ROOT = pathlib.Path(__file__).resolve().parent.parent


def complaints(name, text):
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        yield f"{name}: {len(lines)} lines; over {MAX_LINES} it is two ideas: split it"
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS:
            yield f"{name}:{number}: {len(line)} columns, over {MAX_COLUMNS}"


def main():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found = []
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        code = path.suffix in CODE or path.name in {"CMakeLists.txt", "Makefile"}
        if code and path.is_file():
            found += complaints(name, path.read_text(encoding="utf-8"))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

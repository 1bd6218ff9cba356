#!/usr/bin/env python3
"""Prints what took longest in the trees under build/: steps of the build, and tests.

    slowest.py [COUNT]   ten of each, or COUNT

A step's time is from its start to its end, while other steps ran beside it. Times are from the last
build and the last ctest of each tree.
"""
import pathlib
import re
import sys

BUILD = pathlib.Path(__file__).resolve().parent.parent / "build"
TEST = re.compile(r"^\s*\d+/\d+ Test(?:ing)?: (.+)$|^Test time = +([\d.]+) sec$")


def build_steps(tree):
    """(seconds, output) of each step, the last time that it ran; once, whatever it makes."""
    steps = {}
    for line in (tree / ".ninja_log").read_text(encoding="utf-8").splitlines():
        fields = line.split("\t")
        if len(fields) == 5:
            start, end, _, output, command = fields
            steps[command] = ((int(end) - int(start)) / 1000, f"{tree.name}: {output}")
    return list(steps.values())


def tests(tree):
    """(seconds, name) of each test of the last run."""
    log = tree / "Testing" / "Temporary" / "LastTest.log"
    found, name = [], None
    if log.exists():
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            match = TEST.match(line)
            if match and match[1]:
                name = match[1]
            elif match and name:
                found.append((float(match[2]), f"{tree.name}: {name}"))
    return found


def report(what, rows, count):
    print(f"\n{len(rows)} {what}, {sum(seconds for seconds, _ in rows):.0f} s in all; the slowest:")
    for seconds, name in sorted(rows, reverse=True)[:count]:
        print(f"{seconds:8.1f} s  {name}")


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    trees = sorted(path.parent for path in BUILD.glob("*/.ninja_log"))
    if not trees:
        sys.exit("slowest.py: nothing is built: run make test")
    report("build steps", [row for tree in trees for row in build_steps(tree)], count)
    report("tests", [row for tree in trees for row in tests(tree)], count)


if __name__ == "__main__":
    main()

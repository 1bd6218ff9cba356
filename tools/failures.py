#!/usr/bin/env python3
"""Prints why tests failed in the last ctest of each tree under build/, so that it stands at the end
of a long log.

    failures.py [LINES]   at most 12 lines of a test's output, or LINES

Of a GoogleTest program these are the lines of its failures; of any other test, its last lines.
"""
import pathlib
import re
import sys

BUILD = pathlib.Path(__file__).resolve().parent.parent / "build"
SECTION = re.compile(r"^\s*\d+/\d+ Testing: (.+)$", re.MULTILINE)
OUTPUT = re.compile(r"^Output:\n-+\n(.*?)^<end of output>$", re.MULTILINE | re.DOTALL)
FAILURE = re.compile(
    r": Failure$|^\[  FAILED  \] .*\(\d+ ms\)$|(ERROR|WARNING): \w+Sanitizer"
)
LINES_OF_A_FAILURE = 5


def failed_tests(tree):
    """(name, output) of each test that failed."""
    log = tree / "Testing" / "Temporary" / "LastTest.log"
    failed = tree / "Testing" / "Temporary" / "LastTestsFailed.log"
    if not (log.exists() and failed.exists()):
        return
    names = {line.partition(":")[2] for line in failed.read_text(encoding="utf-8").splitlines()}
    text = log.read_text(encoding="utf-8", errors="replace")
    starts = list(SECTION.finditer(text))
    for start, end in zip(starts, [match.start() for match in starts[1:]] + [len(text)]):
        if start[1] in names and (output := OUTPUT.search(text, start.end(), end)):
            yield start[1], output[1].splitlines()


def telling(lines, most):
    """The lines of the failures, or the last ones."""
    chosen = set()
    for at, line in enumerate(lines):
        if FAILURE.search(line):
            chosen.update(range(at, min(at + LINES_OF_A_FAILURE, len(lines))))
    if not chosen:
        return lines[-most:]
    return [lines[at] for at in sorted(chosen)][:most]


def main():
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    for tree in sorted(path.parent for path in BUILD.glob("*/CTestTestfile.cmake")):
        for name, output in failed_tests(tree):
            print(f"\n{tree.name}: {name} failed:")
            for line in telling(output, most):
                print(f"  {line}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Checks that every planted bug of tests/mutations still applies, and that its test is there.

    check_mutations.py [--self-test]

A bug whose lines were changed or moved is planted again by hand; make mutate then shows whether its
test still catches it.
"""
import dataclasses
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIRECTORY = ROOT / "tests/mutations"
HEADER = re.compile(r"# caught by: (?:(\w+=\w+) )?(?:(\w+) )?([\w/]+\.[\w/]+); (\w+); (.+)")


class Refused(Exception):
    pass


@dataclasses.dataclass
class Mutation:
    name: str
    program: str  # That has the test.
    test: str     # As --gtest_filter takes it.
    room: str
    what: str
    text: str     # The patch.
    environment: dict  # Of the program.


def parse(name, text):
    match = HEADER.match(text)
    if not match:
        raise Refused(f"{name}: the first line is not "
                      "'# caught by: [VARIABLE=VALUE] [PROGRAM] SUITE.TEST; ROOM; DESCRIPTION'")
    setting, program, test, room, what = match.groups()
    environment = dict([setting.split("=")]) if setting else {}
    return Mutation(name, program or "unit_test", test, room, what, text, environment)


def load():
    return [parse(path.stem, path.read_text(encoding="utf-8"))
            for path in sorted(DIRECTORY.glob("*.patch"))]


def hunks(patch):
    """(file, lines before, lines after) of each hunk."""
    found = []
    file = None
    for line in patch.splitlines():
        if line.startswith("+++ b/"):
            file = line.removeprefix("+++ b/")
        elif line.startswith("@@"):
            found.append((file, [], []))
        elif found and line[:1] in (" ", "-", "+"):
            if line[0] != "+":
                found[-1][1].append(line[1:])
            if line[0] != "-":
                found[-1][2].append(line[1:])
    return found


def applied(mutation, read):
    """The files that the patch changes, as {name: text}. Lines are found wherever they are now, but
    in one place only."""
    files = {}
    for file, before, after in hunks(mutation.text):
        lines = files.setdefault(file, read(file).splitlines())
        places = [at for at in range(len(lines)) if lines[at:at + len(before)] == before]
        if len(places) != 1:
            where = f"are {len(places)} times" if places else "are not"
            raise Refused(f"{mutation.name}: the lines of the patch {where} in {file}")
        lines[places[0]:places[0] + len(before)] = after
    if not files:
        raise Refused(f"{mutation.name}: the patch changes nothing")
    return {file: "\n".join(lines) + "\n" for file, lines in files.items()}


def read(file):
    path = ROOT / file
    if not path.is_file():
        raise Refused(f"there is no {file}")
    return path.read_text(encoding="utf-8")


def test_pattern(test):
    """In/AnyHold.OutlivesItsSpace/local is TEST_P(AnyHold, OutlivesItsSpace)."""
    suite, name = test.split(".")
    return re.compile(rf"\(\s*{suite.split('/')[-1]},\s*{name.split('/')[0]}\b")


def complaints():
    sources = "\n".join(path.read_text(encoding="utf-8") for directory in ("src", "tests")
                        for path in sorted((ROOT / directory).rglob("*_test.cpp")))
    found = []
    try:
        mutations = load()
    except Refused as refused:
        return [str(refused)]
    if not mutations:
        found.append("tests/mutations has no patches")
    for mutation in mutations:
        try:
            applied(mutation, read)
        except Refused as refused:
            found.append(str(refused))
        if not test_pattern(mutation.test).search(sources):
            found.append(f"{mutation.name}: there is no test {mutation.test}")
    return found


def self_test():
    text = ("# caught by: In/AnyHold.X/local; core; swaps\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n"
            " a\n-b\n+c\n")
    mutation = parse("m", text)
    assert (mutation.program, mutation.test, mutation.room) == ("unit_test", "In/AnyHold.X/local",
                                                                "core"), mutation
    assert parse("m", text.replace("by: ", "by: sqlite_test ")).program == "sqlite_test"
    assert applied(mutation, lambda file: "x\na\nb\ny\n") == {"f": "x\na\nc\ny\n"}
    for content in ("a\nx\n", "a\nb\na\nb\n", "aa\nb\n"):
        try:
            applied(mutation, lambda file, content=content: content)
        except Refused:
            continue
        raise AssertionError(content)
    assert test_pattern("In/AnyHold.X/local").search("TEST_P(AnyHold, X) {")
    assert not test_pattern("AnyHold.X").search("TEST_P(AnyHold, XY) {")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    found = complaints()
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs one case: a program that defines names, what it must print, and how it must end.

    check.py CASE PROGRAM_DIRECTORY COMPILER_ID

{shelf.hpp} in an expected text is the place of the name that is defined in that file, as the
compiler has it: clang's column is where the literal begins, gcc's where its initializer ends.
"""
import pathlib
import re
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
STYLES = ["exported", "shared", "private"]


def duplicate(name, first, second):
    return (f'tenure: the name "{name}" is defined twice:\n  {{{first}}}\n  {{{second}}}\n'
            "A lock of one would block a lock of the other. Rename one of them; or, if both mean "
            "the same\nthing, define the name once, in a header that both files include.\n")


# case: (program and steps, expected output, expected to abort)
CASES = {
    "two_units": ("two_units", duplicate("book", "shelf.hpp", "again.cpp"), True),
    "two_archives": (
        "two_archives", duplicate("shelf", "first_library.cpp", "second_library.cpp"), True),
    "early_and_late": ("early", "main: 2\nafter main: 0\n", False),
    # The plug-in's book is the host's own object: the loader made them one.
    "exported.visible": (
        "host_exported +visible_exported.so list",
        "+visible_exported.so\nlist\nbook, 1: {shelf.hpp}\ndone\n", False),
    # The host has no Tenure. The plug-in that made the registry goes first.
    "private.maker_unloaded": (
        "host_bare +author_a_private.so +same_private.so -author_a_private.so "
        "+author_b_private.so +author_a_private.so",
        "+author_a_private.so\n+same_private.so\n-author_a_private.so\n+author_b_private.so\n"
        "+author_a_private.so\n" + duplicate("author", "author_b.cpp", "author_a.cpp"), True),
    # One plug-in brings its own Tenure, the other uses the shared one.
    "mixed": (
        "host_bare +author_a_private.so +author_b_shared.so",
        "+author_a_private.so\n+author_b_shared.so\n"
        + duplicate("author", "author_a.cpp", "author_b.cpp"), True),
}
for style in STYLES:
    host = f"host_{style}"
    CASES |= {
        f"{style}.same": (
            f"{host} +same_{style}.so list -same_{style}.so list",
            f"+same_{style}.so\nlist\nbook, 2: {{shelf.hpp}}\n"
            f"-same_{style}.so\nlist\nbook, 1: {{shelf.hpp}}\ndone\n", False),
        f"{style}.duplicate": (
            f"{host} +again_{style}.so",
            f"+again_{style}.so\n" + duplicate("book", "shelf.hpp", "again.cpp"), True),
        f"{style}.two_plugins": (
            f"{host} +author_a_{style}.so +author_b_{style}.so",
            f"+author_a_{style}.so\n+author_b_{style}.so\n"
            + duplicate("author", "author_a.cpp", "author_b.cpp"), True),
        f"{style}.unloaded": (
            f"{host} +author_a_{style}.so -author_a_{style}.so +author_b_{style}.so list",
            f"+author_a_{style}.so\n-author_a_{style}.so\n+author_b_{style}.so\nlist\n"
            "author, 1: {author_b.cpp}\nbook, 1: {shelf.hpp}\ndone\n", False),
        f"{style}.threads": (
            f"{host} %author_a_{style}.so list",
            f"%author_a_{style}.so\nlist\nbook, 1: {{shelf.hpp}}\ndone\n", False),
    }


def place(file, compiler):
    """Where the last name of a file is defined: those that matter here are the last ones."""
    path = HERE / file
    definitions = [(number, line) for number, line in enumerate(path.read_text().splitlines(), 1)
                   if "tenure::Name " in line and "{" in line]
    number, line = definitions[-1]
    column = line.rindex('{"') + 2 if compiler == "Clang" else line.rindex('"}') + 2
    return f"{path}:{number}:{column}"


def main():
    case, directory, compiler = sys.argv[1:]
    command, expected, aborts = CASES[case]
    expected = re.sub(r"{([\w.]+)}", lambda match: place(match[1], compiler), expected)
    program, *steps = command.split()
    steps = [step[0] + f"{directory}/{step[1:]}" if step != "list" else step for step in steps]
    # No core files: these programs die on purpose.
    run = subprocess.run(
        ["bash", "-c", 'ulimit -c 0; exec "$0" "$@"', f"{directory}/{program}", *steps],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    status = -signal.SIGABRT if aborts else 0
    if (run.stdout, run.returncode) == (expected, status):
        return 0
    print(f"expected status {status} and\n{expected}")
    print(f"got status {run.returncode} and\n{run.stdout}")
    return 1


if __name__ == "__main__":
    sys.exit(main())

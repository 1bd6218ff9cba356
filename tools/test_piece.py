#!/usr/bin/env python3
"""Writes one C++ file that consists of several test files, to be compiled in one piece.

    test_piece.py OUT SOURCE...

A third of the time of the same files one by one: headers are read and templates are instantiated
once. Test files may define the same names, so the anonymous namespaces of a file are put into a
namespace that has the name of the file. Compilers and gtest name the original files and lines.
"""
import os
import pathlib
import re
import sys

OPENING = re.compile(r"^namespace \{$", re.MULTILINE)
CLOSING = re.compile(r"^\}  // namespace$", re.MULTILINE)


def piece_of(source, directory):
    text = source.read_text(encoding="utf-8")
    name = re.sub(r"\W", "_", source.stem)
    text, opened = OPENING.subn(f"namespace {name} {{ namespace {{", text)
    # Code outside of them may use what is inside.
    outside = [line for line in CLOSING.split(text, 1)[-1].splitlines()
               if line and not line.startswith(("}", "//"))]
    text, closed = CLOSING.subn(f"}}}} using namespace {name};" if outside else "}}", text)
    if opened != closed:
        sys.exit(f"{source}: {opened} lines 'namespace {{', but {closed} lines '}}  // namespace'")
    # Relative, as ccache has it, so that the clones of one machine share what they compile.
    return f'#line 1 "{os.path.relpath(source, directory)}"\n{text}\n'


def main():
    out = pathlib.Path(sys.argv[1])
    sources = [pathlib.Path(name) for name in sys.argv[2:]]
    directory = os.getcwd()  # Where the compiler runs: the tree.
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(piece_of(source, directory) for source in sources), encoding="utf-8")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The README's first program and its output are examples/readme.cpp and readme.txt, to the byte."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
readme = (root / "README.md").read_text(encoding="utf-8")


def block(language):
    found = re.search(rf"^```{language}\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    return found.group(1) if found else None


failed = False
for language, name in (("cpp", "readme.cpp"), ("text", "readme.txt")):
    if block(language) != (root / "examples" / name).read_text(encoding="utf-8"):
        print(f"README.md: its first {language} block is not examples/{name}: copy it over")
        failed = True
sys.exit(failed)

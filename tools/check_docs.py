#!/usr/bin/env python3
"""Every piece of code in the documents is tested, or says why not.

A comment on the line before a block says how:

    <!-- is: FILE -->              the block is that file, to the byte; what tests the file tests it
    <!-- test: NAME -->            tests/docs/NAME, with the block in the place of its line SNIPPET
    <!-- not tested: REASON -->

A block without a language, or of `text`, is not code and needs none.

    check_docs.py                  checks that all blocks say so
    check_docs.py --fill NAME OUT  writes tests/docs/NAME with its block in it to OUT
    check_docs.py --self-test
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "tests" / "docs"
FENCE = re.compile(r"^```(\w*)$")
MARK = re.compile(r"^<!-- (is|test|not tested): (\S.*) -->$")
PLACE = re.compile(r"^ *(//|#) SNIPPET\n", re.MULTILINE)


class Block:
    def __init__(self, document, line, language, mark, text):
        self.document = document
        self.line = line  # Of its first line of code.
        self.language = language
        self.kind, self.value = mark.groups() if mark else (None, None)
        self.text = text


def blocks_of(document, text):
    """Those of a document; raises ValueError for one that does not end."""
    lines = text.splitlines(keepends=True)
    at = 0
    while at < len(lines):
        fence = FENCE.match(lines[at].rstrip("\n"))
        at += 1
        if not fence:
            continue
        begin = at
        while at < len(lines) and lines[at].rstrip("\n") != "```":
            at += 1
        if at == len(lines):
            raise ValueError(f"{document}:{begin}: a block that does not end")
        mark = MARK.match(lines[begin - 2].rstrip("\n")) if begin >= 2 else None
        yield Block(document, begin + 1, fence.group(1), mark, "".join(lines[begin:at]))
        at += 1


def complaints(blocks, templates, read):
    """`templates`: names in tests/docs; `read`: the text of a file of the repository, or None."""
    used = {}
    for block in blocks:
        where = f"{block.document}:{block.line - 1}"
        if block.kind is None:
            if block.language not in ("", "text"):
                yield f"{where}: nothing says how this block is tested: see tools/check_docs.py"
        elif block.kind == "is":
            if read(block.value) != block.text:
                yield f"{where}: this block is not {block.value}: copy one over the other"
        elif block.kind == "test":
            if block.value not in templates:
                yield f"{where}: there is no tests/docs/{block.value}"
            elif block.value in used:
                yield f"{where}: tests/docs/{block.value} tests {used[block.value]} already"
            used.setdefault(block.value, where)
    for name in sorted(set(templates) - set(used)):
        yield f"tests/docs/{name}: no document has a block for it"
    for name in templates:
        if len(PLACE.findall(read(f"tests/docs/{name}") or "")) != 1:
            yield f"tests/docs/{name}: needs one line SNIPPET, in a comment"


def filled(template, block):
    """Compilers report errors at the line of the document."""
    text = block.text
    if block.language == "cpp":
        text = f'#line {block.line} "{ROOT / block.document}"\n{text}'
    return PLACE.sub(lambda _: text, template)


def documents():
    rooms = [path for path in ROOT.iterdir()
             if path.is_dir() and path.name != "build" and not path.name.startswith(".")]
    found = [*ROOT.glob("*.md"), *(path for room in rooms for path in room.rglob("*.md"))]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def read_file(name):
    path = ROOT / name
    return path.read_text(encoding="utf-8") if path.is_file() else None


def all_blocks():
    return [block for name in documents() for block in blocks_of(name, read_file(name))]


def fill(name, out):
    block = next(one for one in all_blocks() if (one.kind, one.value) == ("test", name))
    pathlib.Path(out).write_text(filled(read_file(f"tests/docs/{name}"), block), encoding="utf-8")


def self_test():
    files = {"a.txt": "x\n", "tests/docs/s.sh": "# SNIPPET\n", "tests/docs/two.sh": "none\n"}
    cases = [
        ("```\nany\n```\n```text\nany\n```\n", ["s.sh"], "tests/docs/s.sh: no document"),
        ("```sh\nls\n```\n", [], "d:1: nothing says"),
        ("<!-- is: a.txt -->\n```text\nx\n```\n", [], ""),
        ("<!-- is: a.txt -->\n```text\ny\n```\n", [], "d:2: this block is not a.txt"),
        ("<!-- is: none -->\n```sh\ny\n```\n", [], "d:2: this block is not none"),
        ("<!-- not tested: it deletes everything -->\n```sh\nrm -rf\n```\n", [], ""),
        ("<!-- not tested: -->\n```sh\nrm -rf\n```\n", [], "d:2: nothing says"),
        ("<!-- test: s.sh -->\n```sh\nls\n```\n", ["s.sh"], ""),
        ("<!-- test: t.sh -->\n```sh\nls\n```\n", [], "d:2: there is no tests/docs/t.sh"),
        ("<!-- test: s.sh -->\n```sh\nls\n```\n" * 2, ["s.sh"], "d:6: tests/docs/s.sh tests d:2"),
        ("<!-- test: two.sh -->\n```sh\nls\n```\n", ["two.sh"], "tests/docs/two.sh: needs one"),
    ]
    for text, templates, expected in cases:
        found = list(complaints(list(blocks_of("d", text)), templates, files.get))
        good = len(found) == 1 and found[0].startswith(expected) if expected else not found
        assert good, (text, expected, found)
    block = next(blocks_of("d", "\n```cpp\nf();\n```\n"))
    assert filled("a\n  // SNIPPET\nb\n", block) == f'a\n#line 3 "{ROOT}/d"\nf();\nb\n'


def main(words):
    if words == ["--self-test"]:
        self_test()
        return 0
    if len(words) == 3 and words[0] == "--fill":
        fill(*words[1:])
        return 0
    templates = [path.name for path in TEMPLATES.iterdir()
              if path.name.endswith("_test.cpp") or path.suffix == ".sh"]
    found = list(complaints(all_blocks(), templates, read_file))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

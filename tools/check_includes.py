#!/usr/bin/env python3
"""Includes point one way, and every room says what it is for.

A room is a directory under src/ or apps/. A private file belongs to the room it lies in; a public
header belongs to the room whose CMakeLists.txt lists it under HEADERS. MAY_INCLUDE is the whole
rule. Tests, benchmarks, fuzzers and examples may include anything.

    check_includes.py               checks the project this file is in
    check_includes.py --self-test   checks that the check still fails where it must
"""
import pathlib
import re
import sys
import tempfile

# room: the rooms below it. Neighbours (flow, pipeline, git; name, net) do not know each other.
MAY_INCLUDE = {
    "base": set(),
    "process": {"base"},
    "core": {"base"},
    "name": {"base", "core"},
    "net": {"base", "core"},
    "store": {"base", "core", "name"},
    "space": {"base", "core", "name", "store"},
    "flow": {"base", "core", "name", "store", "space"},
    "pipeline": {"base", "process", "core", "name", "net", "store", "space"},
    "git": {"base", "process", "core", "name", "net", "store", "space"},
}
MAY_INCLUDE["apps"] = set(MAY_INCLUDE)

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', re.MULTILINE)
LAYER = re.compile(r"tenure_layer\(\s*(\w+)([^)]*)\)")
FREE = re.compile(r"_(test|bench|fuzz)\.[ch]pp$")


def public_headers(root):
    """Which room lists each public header: {"tenure/path.hpp": "core"}."""
    rooms = {}
    for listing in sorted(root.glob("src/**/CMakeLists.txt")):
        text = re.sub(r"#.*", "", listing.read_text(encoding="utf-8"))
        for room, arguments in LAYER.findall(text):
            for word in arguments.split():
                if word.startswith("tenure/"):
                    rooms[word] = room
    return rooms


def room_of(path, root, headers):
    """The room a file belongs to; None for one that belongs to none."""
    parts = path.relative_to(root).parts
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[0] == "apps":
        return "apps"
    if parts[0] == "include":
        return headers.get("/".join(parts[1:]))
    return None


def resolve(name, including, root):
    """The file of the project that an include names; None for someone else's header."""
    for directory in (including.parent, root / "include", root / "src", root):
        path = (directory / name).resolve()
        if path.is_file() and path.is_relative_to(root):
            return path
    return None


def include_complaints(root):
    headers = public_headers(root)
    files = [path for top in ("include", "src", "apps") for path in sorted((root / top).rglob("*"))
             if path.suffix in (".hpp", ".cpp") and not FREE.search(path.name)]
    for path in files:
        where = path.relative_to(root)
        room = room_of(path, root, headers)
        if room is None:
            yield f"{where}: no room lists it under HEADERS"
        elif room not in MAY_INCLUDE:
            yield f"{where}: room {room} has no line in MAY_INCLUDE"
        else:
            yield from upward_includes(path, room, root, headers)


def upward_includes(path, room, root, headers):
    text = path.read_text(encoding="utf-8")
    for match in INCLUDE.finditer(text):
        target = resolve(match[1], path, root)
        if target is None:
            continue
        below = room_of(target, root, headers)
        if below != room and below not in MAY_INCLUDE[room]:
            line = text.count("\n", 0, match.start()) + 1
            yield (f"{path.relative_to(root)}:{line}: {room} may not include {match[1]}, "
                   f"which belongs to {below or 'no room'}")


def rooms(root):
    """Directories that must introduce themselves."""
    for top in ("src", "apps"):
        yield from (path for path in sorted((root / top).glob("*")) if path.is_dir())
    for top in ("tests", "bench", "fuzz", "examples", "docs"):
        if (root / top).is_dir():
            yield root / top
            # A directory of data, such as first inputs for a fuzzer, is no room.
            yield from (path for path in sorted((root / top).glob("*"))
                        if path.is_dir() and (path / "CMakeLists.txt").exists())


def complaints(root):
    root = root.resolve()
    yield from include_complaints(root)
    for room in rooms(root):
        if not (room / "README.md").is_file():
            yield f"{room.relative_to(root)}: a room without a README.md"


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


SOUND = {
    "src/base/CMakeLists.txt": "tenure_layer(base HEADERS tenure/error.hpp SOURCES error.cpp)\n",
    "src/base/README.md": "# base\n",
    "src/base/error.cpp": '#include "tenure/error.hpp"\n#include <vector>\n',
    "src/core/CMakeLists.txt": "tenure_layer(core\n  HEADERS tenure/path.hpp\n  DEPENDS base)\n",
    "src/core/README.md": "# core\n",
    "src/core/rule.hpp": "#include <tenure/error.hpp>\n",
    "src/core/deep/rule.cpp": '#include "core/rule.hpp"\n#include "../rule.hpp"\n',
    "src/core/rule_test.cpp": '#include "space/table.hpp"\n',
    "src/space/README.md": "# space\n",
    "src/space/table.hpp": '#include "core/rule.hpp"\n',
    "include/tenure/error.hpp": "",
    "include/tenure/path.hpp": '#include "tenure/error.hpp"\n',
    "tests/README.md": "# tests\n",
    "fuzz/README.md": "# fuzz\n",
    "fuzz/seeds/one": "/a\n",
}
# Each breaks the sound tree in one way: what is written, and what must be said about it.
BROKEN = [
    ({"src/base/error.cpp": '\n#include "core/rule.hpp"\n'},
     "src/base/error.cpp:2: base may not include core/rule.hpp, which belongs to core"),
    ({"include/tenure/error.hpp": '#  include <tenure/path.hpp>\n'},
     "include/tenure/error.hpp:1: base may not include tenure/path.hpp, which belongs to core"),
    ({"src/base/error.cpp": '#include "../core/rule.hpp"\n'},
     "src/base/error.cpp:1: base may not include ../core/rule.hpp, which belongs to core"),
    ({"src/flow/README.md": "# flow\n", "src/flow/flow.hpp": "", "src/git/README.md": "# git\n",
      "src/git/git.cpp": '#include "flow/flow.hpp"\n'},
     "src/git/git.cpp:1: git may not include flow/flow.hpp, which belongs to flow"),
    ({"include/tenure/lost.hpp": ""}, "include/tenure/lost.hpp: no room lists it under HEADERS"),
    ({"src/attic/README.md": "# attic\n", "src/attic/a.cpp": ""},
     "src/attic/a.cpp: room attic has no line in MAY_INCLUDE"),
    ({"apps/tenure/main.cpp": '#include "space/table.hpp"\n'},
     "apps/tenure: a room without a README.md"),
    ({"tests/install/CMakeLists.txt": ""}, "tests/install: a room without a README.md"),
]


def self_test():
    failures = 0
    for change, expected in [({}, None), *BROKEN]:
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            write(root, SOUND | change)
            found = list(complaints(root))
            if found != ([expected] if expected else []):
                failures += 1
                print(f"expected: {expected}\nfound:    {found}")
    print(f"{len(BROKEN) + 1} trees, {failures} failures")
    return 1 if failures else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    found = list(complaints(pathlib.Path(__file__).parent.parent))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

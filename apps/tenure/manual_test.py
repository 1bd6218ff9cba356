#!/usr/bin/env python3
"""--help, the manual page and the completions say the same, and are what their readers expect.

    manual_test.py CASE PROGRAM
"""
import re
import shutil
import subprocess

from harness import LIMIT, main

COMMANDS = ["run", "git", "ls", "tree", "show", "watch", "evict", "ask", "limit", "doctor",
            "shards", "bench", "pipeline", "flow", "demo", "completions", "man"]


def options(space, *command):
    """{"--label": "TEXT", "--try": ""} as --help lists them."""
    status, out, error = space.do(*command, "--help")
    assert (status, error) == (0, ""), error
    assert max(map(len, out.splitlines())) <= 80, out
    listed = {}
    for names, value in re.findall(r"^  ((?:-\w(?:, )?)?(?:--[\w-]+)?)(?: (\S+))?(?:  |$)",
                                   out.partition("Options:\n")[2], re.MULTILINE):
        for name in filter(None, names.split(", ")):
            listed[name] = value
    assert {"-h", "--help"} <= set(listed), out
    return listed


def help(space):
    out = space.do("--help")[1]
    assert re.findall(r"^  (\w+)  ", out.partition("Commands:")[2].partition("Options:")[0],
                      re.MULTILINE) == COMMANDS, out
    assert "demo-contender" not in out
    run = options(space, "run")
    assert set(run) == {"-h", "--help", "--shared", "--group", "--permits", "--take", "--try",
                        "--timeout", "--max-hold", "-E", "--label", "--flock", "--on-ask",
                        "--quiet", "--space"}, run
    for command in ("ls", "tree", "show", "watch", "evict", "ask", "limit", "doctor", "shards",
                    "bench"):
        assert {"--json", "--space"} <= set(options(space, command)), command


def every_option(space):
    """What one of them lists, all do."""
    page = space.do("man")[1].replace("\\-", "-")
    shells = {shell: space.do("completions", shell)[1] for shell in ("bash", "zsh", "fish")}
    sections = dict(re.findall(r"^\.SS (\w+)\n(.*?)(?=^\.S[SH] )", page,
                               re.MULTILINE | re.DOTALL))
    assert list(sections) == COMMANDS, list(sections)
    for command in COMMANDS:
        bash = re.search(rf"^    {command}\)\n(.*?)^      ;;", shells["bash"],
                         re.MULTILINE | re.DOTALL)[1]
        zsh = re.search(rf"^    {command}\)\n(.*?)^      ;;", shells["zsh"],
                        re.MULTILINE | re.DOTALL)[1]
        for name, value in options(space, command).items():
            assert f"\\fB{name}\\fR" in sections[command], (command, name)
            assert re.search(rf"(?<![\w-]){name}(?![\w-])", bash), (command, name)
            assert f"'{name}[" in zsh, (command, name)
            flag = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            assert re.search(rf"_from {command}'.* {flag} ", shells["fish"]), (command, name)
            if value and "|" not in value:
                assert f"\\fI{value}\\fR" in sections[command], (command, value)
    for name in ("--version", "--help"):
        assert all(name.strip("-") in text for text in shells.values())
        assert f"\\fB{name}\\fR" in page


def page(space):
    """It formats without a warning, and has what a manual page has."""
    text = space.do("man")[1]
    for section in ("NAME", "SYNOPSIS", "OPTIONS", "COMMANDS", "EXIT STATUS", "ENVIRONMENT", "JSON",
                    "FILES", "EXAMPLES"):
        assert f".SH {section}\n" in text, section
    for status in (1, 2, 73, 74, 75, 126, 127):
        assert f"\\fB{status}\\fR" in text, status
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-z"], input=text, text=True,
                              capture_output=True, timeout=LIMIT)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr


def shells_read_it(space):
    """Each shell parses its file; bash completes with it."""
    for shell in ("bash", "zsh", "fish"):
        status, text, error = space.do("completions", shell)
        assert (status, error) == (0, "")
        if shutil.which(shell):
            file = space.file(f"completions.{shell}")
            file.write_text(text)
            done = subprocess.run([shell, "-n", file], capture_output=True, text=True,
                                  timeout=LIMIT)
            assert (done.returncode, done.stderr) == (0, ""), (shell, done.stderr)

    def complete(*words):
        script = (f"source {space.file('completions.bash')}; COMP_WORDS=({' '.join(words)}); "
                  f"COMP_CWORD={len(words) - 1}; _tenure; echo \"${{COMPREPLY[@]}}\"")
        return subprocess.run(["bash", "-c", script], capture_output=True, text=True,
                              timeout=LIMIT, check=True).stdout.split()
    assert complete("tenure", "wa") == ["watch"]
    assert complete("tenure", "run", "--ti") == ["--timeout"]
    assert complete("tenure", "run", "--timeout", "''") == []
    assert complete("tenure", "bench", "--mode", "sh") == ["shared"]
    assert complete("tenure", "completions", "f") == ["fish"]
    assert "ls" in complete("tenure", "run", "a", "--", "ls")


if __name__ == "__main__":
    main(globals())

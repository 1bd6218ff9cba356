#!/usr/bin/env python3
"""Runs the program as a shell would: what it prints where, and how it ends.

    cli_test.py CASE PROGRAM
"""
import os
import pty
import re
import subprocess
import sys

ESCAPE = "\x1b["


def run(program, *arguments):
    """Standard output and error through pipes."""
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=50)


def run_on_terminal(program, *arguments, **environment):
    """What a terminal would show."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(program, [program, *arguments], {"TERM": "xterm", **environment})
    shown = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # How Linux says that the other side has gone.
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return shown.decode()


def refused(program, arguments, message):
    done = run(program, *arguments)
    assert done.returncode == 2, done
    assert done.stdout == "", done
    assert done.stderr == f"tenure: {message}; see 'tenure --help'\n", done


def help(program):
    done = run(program, "--help")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert re.search(r"^ +demo ", done.stdout, re.MULTILINE), done.stdout


def version(program):
    done = run(program, "--version")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert re.fullmatch(r"tenure \d+\.\d+\.\d+\n", done.stdout), done.stdout


def demo(program):
    done = run(program, "demo")
    assert (done.returncode, done.stderr) == (0, ""), done
    out = done.stdout
    assert ESCAPE not in out
    assert max(map(len, out.splitlines())) <= 80
    assert not re.search(r" $", out, re.MULTILINE), "blanks at the end of a line"

    def scene(title):
        return out[out.index(title):].split("\n\n")[0]

    readers = re.findall(r"[┃┊] book/3\S*|done", scene("Readers share"))
    assert readers == ["┃ book/3:shared", "┃ book/3:shared", "┊ book/3", "┊ book/3:shared",
                       "done", "done", "┃ book/3", "done", "┃ book/3:shared", "done"], readers
    tree = re.findall(r"[┃┊] [a-z]\S*", scene("A claim covers"))
    assert tree[:4] == ["┃ book", "┊ book/3", "┊ book/4", "┃ magazine"], tree
    assert sorted(tree[4:]) == ["┃ book/3", "┃ book/4"], tree
    permits = re.findall(r"[┃┊] api\S+|done", scene("Two permits"))
    hold, wait = "┃ api:permits(2)", "┊ api:permits(2)"
    assert permits[:8] == [hold, hold, wait, wait, "done", hold, "done", hold], permits
    deadlock = " ".join(scene("Two owners").split())
    assert re.search(r"deadlock: bob \(book/1, ticket \d+\) waits for ann \(book/1, ticket \d+\), "
                     r"ann \(book/2, ticket \d+\) waits for bob", deadlock), deadlock
    evicted = re.findall(r"[┃┊] book/9|evicted|done", scene("An operator"))
    assert evicted[:6] == ["┃ book/9", "┊ book/9", "┊ book/9", "evicted", "┃ book/9",
                           "done"], evicted
    assert "10000 of 10000 in line went through in order" in out
    assert out.endswith(" Read on in examples/README.md\n")


def colours(program):
    assert ESCAPE in run_on_terminal(program, "demo")
    assert ESCAPE not in run_on_terminal(program, "demo", NO_COLOR="1")
    assert ESCAPE in run_on_terminal(program, "demo", NO_COLOR="")
    assert ESCAPE not in run_on_terminal(program, "demo", TERM="dumb")


def no_command(program):
    refused(program, [], "no command given")


def bad_command(program):
    refused(program, ["dmeo"], "unknown command dmeo")


def bad_option(program):
    refused(program, ["--loud"], "unknown option --loud")
    refused(program, ["demo", "--loud"], "unknown option --loud")


def bad_argument(program):
    refused(program, ["demo", "now"], "unexpected argument now")


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])

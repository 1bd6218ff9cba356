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


def refused(program, arguments, message, command=""):
    done = run(program, *arguments)
    assert done.returncode == 2, done
    assert done.stdout == "", done
    assert done.stderr == f"tenure: {message}; see 'tenure {command}--help'\n", done


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

    readers = re.findall(r"[┃┊] book/3\S*|released", scene("1. Readers share"))
    assert readers == ["┃ book/3:shared", "┃ book/3:shared", "┊ book/3", "┊ book/3:shared",
                       "released", "released", "┃ book/3", "released", "┃ book/3:shared",
                       "released"], readers
    tree = re.findall(r"[┃┊] [a-z]\S*", scene("2. A lock covers"))
    assert tree[:4] == ["┃ book", "┊ book/3", "┊ book/4", "┃ magazine"], tree
    assert sorted(tree[4:]) == ["┃ book/3", "┃ book/4"], tree
    permits = re.findall(r"[┃┊] api\S+|released", scene("3. Two permits"))
    hold, wait = "┃ api:permits(2)", "┊ api:permits(2)"
    assert permits[:8] == [hold, hold, wait, wait, "released", hold, "released", hold], permits
    deadlock = " ".join(scene("4. A deadlock").split())
    assert re.search(r"deadlock: Bob \(book/1, ticket \d+\) waits for Ann \(book/1, ticket \d+\), "
                     r"Ann \(book/2, ticket \d+\) waits for Bob", deadlock), deadlock
    evicted = re.findall(r"[┃┊] book/9|evicted|released", scene("5. An operator"))
    assert evicted[:6] == ["┃ book/9", "┊ book/9", "┊ book/9", "evicted", "┃ book/9",
                           "released"], evicted
    assert "10000 of 10000 got the lock in order" in out
    processes = scene("7. Four processes")
    assert re.findall(r"[┃┊] deploy/prod", processes) == ["┃ deploy/prod"] + 3 * ["┊ deploy/prod"]
    pids = re.findall(r"process (\d+) +[┃┊]", processes)
    killed = re.findall(r"process (\d+) +killed by SIGKILL; process (\d+) got the lock [\d.]+ "
                        r"(?:µs|ms|s) later", processes)
    assert killed == list(zip(pids, pids[1:])), processes
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    pipeline = scene("8. A pipeline is killed")
    before, after = pipeline.split("the run was killed by SIGKILL\n")
    done = [re.findall(r"^ +done +(\S+) ", part, re.MULTILINE) for part in (before, after)]
    assert len(done[0]) >= 2 and done[1][-1] == "release" and "5 done in" in after, pipeline
    assert not set(done[0]) & set(done[1]), "done twice: " + pipeline
    assert out.endswith("\nRead on: docs/cli.md for the command line, examples/README.md for the "
                        "library\n")
    steps = re.findall(r"process (\d+) +(.+)", scene("9. A workflow is killed"))
    first, second = steps[0][0], steps[-1][0]
    assert steps == [(first, "reserve"), (first, "charge"), (first, "ship"),
                     (first, "killed by SIGKILL"), (second, "ship"),
                     (second, "the order is shipped")] and first != second, steps


def demo_colours(program):
    assert ESCAPE in run_on_terminal(program, "demo")
    assert ESCAPE not in run_on_terminal(program, "demo", NO_COLOR="1")
    assert ESCAPE in run_on_terminal(program, "demo", NO_COLOR="")
    assert ESCAPE not in run_on_terminal(program, "demo", TERM="dumb")


def no_command(program):
    refused(program, [], "no command given")


def bad_command(program):
    refused(program, ["dmeo"], "unknown command 'dmeo'")


def bad_option(program):
    refused(program, ["--loud"], "unknown option '--loud'")
    refused(program, ["demo", "--loud"], "unknown option '--loud'", "demo ")
    refused(program, ["run", "a", "--shared", "--permits", "2", "--", "true"],
            "use only one of --shared, --group and --permits", "run ")
    refused(program, ["run", "a", "--try", "--timeout", "1s", "--", "true"],
            "use only one of --try and --timeout", "run ")
    refused(program, ["--json", "run", "a", "--", "true"], "unknown option '--json'", "run ")
    refused(program, ["--json", "--loud", "ls"], "unknown option '--loud'", "ls ")


def bad_argument(program):
    refused(program, ["demo", "now"], "unexpected argument 'now'", "demo ")
    refused(program, ["run", "--", "true"], "no PATH given", "run ")
    refused(program, ["run", "a"], "no command given: put it after --", "run ")
    refused(program, ["run", "a", "--"], "no command given: put it after --", "run ")
    refused(program, ["show"], "no PATH given", "show ")
    refused(program, ["evict", "first"],
            "TOKEN takes a number from 0 to 18446744073709551615, not 'first'", "evict ")
    refused(program, ["completions", "csh"], "SHELL must be bash, zsh or fish, not 'csh'",
            "completions ")


def bad_value(program):
    refused(program, ["ls", "--space"], "--space needs a value", "ls ")
    refused(program, ["ls", "--space", ""], "--space needs a value", "ls ")
    refused(program, ["--space", "", "ls"], "--space needs a value", "ls ")
    refused(program, ["--space"], "--space needs a value")
    refused(program, ["--space", "sqlite:a.db"], "no command given")
    refused(program, ["run", "a", "--permits", "0", "--", "true"],
            "--permits takes a number from 1 to 1000000000, not '0'", "run ")
    refused(program, ["run", "a", "--permits", "3", "--take", "4", "--", "true"],
            "--take takes a number from 1 to 3, not '4'", "run ")
    refused(program, ["run", "a", "--take", "2", "--", "true"],
            "--take needs --permits: it says how many of the permits to take", "run ")
    refused(program, ["run", "a", "-E", "256", "--", "true"],
            "-E takes a number from 0 to 255, not '256'", "run ")
    refused(program, ["run", "a", "--label", "x" * 257, "--", "true"],
            "--label is longer than 256 bytes: shorten it", "run ")
    refused(program, ["bench", "--mode", "loud"],
            "--mode must be exclusive, shared or permits, not 'loud'", "bench ")
    refused(program, ["bench", "--processes", "9"],
            "--processes must not be greater than --clients", "bench ")


def bad_path(program):
    refused(program, ["ls", "a//b"],
            'bad path "a//b" at byte 2: this segment is empty: remove a slash, or write "" for an '
            "empty segment", "ls ")
    done = run(program, "run", "a b\x1b[2J%", "--", "true")
    assert done.returncode == 2 and "write %25 for a percent sign" in done.stderr, done
    assert ESCAPE not in done.stderr, done


def a_url_in_the_wrong_place(program):
    """It may have a password in it."""
    url, shown = "postgres://me:hunter2@db/ops", "postgres://me@db/ops"
    refused(program, ["ls", url], f"'{shown}' is a URL, not a path: use --space", "ls ")
    refused(program, ["run", url, "--", "true"], f"'{shown}' is a URL, not a path: use --space",
            "run ")
    refused(program, ["evict", url],
            f"TOKEN takes a number from 0 to 18446744073709551615, not '{shown}'", "evict ")
    refused(program, ["demo", url], f"unexpected argument '{shown}'", "demo ")
    refused(program, [url], f"unknown command '{shown}'")


def durations(program):
    def bad(text, why):
        refused(program, ["run", "a", "--timeout", text, "--", "true"],
                f"--timeout: '{text}' is not a duration: {why}", "run ")

    units = "use ms, s, m, h or d"
    example = "write for example 500ms, 10s, 5m, 2h, 1d or 1h30m"
    bad("10", f"'10' has no unit; {units}")
    bad("5y", f"unknown unit 'y'; {units}")
    bad("1.5s", f"unknown unit '.'; {units}")
    bad("s", example)
    bad("-5s", f"{example}")
    bad("30m1h", "put larger units first, and use each unit once")
    bad("1s1s", "put larger units first, and use each unit once")
    bad("36526d", "the maximum is 100 years")
    bad("36525d1ms", "the maximum is 100 years")
    bad("99999999999999999999999s", "the maximum is 100 years")
    refused(program, ["run", "a", "--max-hold", "0s", "--", "true"],
            "--max-hold must be greater than zero", "run ")
    # What is right gets as far as the command, which is missing.
    for text in ("0s", "500ms", "10s", "5m", "2h", "1d", "1h30m", "1d2h3m4s5ms", "36525d"):
        done = run(program, "run", "a", "--timeout", text, "--", "/no/such/command")
        assert done.returncode == 127, done


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])

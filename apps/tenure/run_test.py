#!/usr/bin/env python3
"""tenure run: exit status, signals, input, environment, and the wait for the lock.

    run_test.py CASE PROGRAM
"""
import json
import os
import re
import signal
import stat

from harness import finish, main, state_of, wait_for


def exit_status(space):
    assert space.do("run", "a", "--", "true") == (0, "", "")
    assert space.do("run", "a", "--", "sh", "-c", "exit 7") == (7, "", "")
    assert space.do("run", "a", "--", "sh", "-c", "exit 74")[0] == 74
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1):
        done = space.do("run", "a", "--", "sh", "-c", f"kill -{number} $$")
        assert done == (128 + number, "", ""), done
    assert space.tickets() == []


def missing_command(space):
    """Told before the wait for the lock."""
    space.hold("a")
    status, out, error = space.do("run", "a", "--", "no-such-command-anywhere")
    assert (status, out) == (127, ""), error
    assert error == "tenure: no-such-command-anywhere: command not found\n", error
    plain = space.file("plain")
    plain.write_text("true\n")
    assert space.do("run", "a", "--", plain) == (126, "", f"tenure: {plain}: not executable\n")
    assert space.do("run", "a", "--", space.directory)[0] == 126
    # What the search can't know: an interpreter that is missing.
    broken = space.file("broken")
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    status, out, error = space.do("run", "b", "--", broken)
    assert status == 127 and "No such file" in error, (status, error)
    # A script without a first line is run by the shell, as the shell does.
    plain.chmod(0o755)
    assert space.do("run", "b", "--", plain) == (0, "", "")


def environment(space):
    status, out, _ = space.do("run", "a/b", "c", "--", "env")
    assert status == 0
    set_ = dict(line.split("=", 1) for line in out.splitlines())
    assert set_["TENURE_PATH"] == "a/b c", set_
    assert set_["TENURE_SPACE"] == space.environment["TENURE_SPACE"]
    assert re.fullmatch(r"\S+-[0-9a-f]{12}", set_["TENURE_OWNER"]), set_
    first = int(set_["TENURE_TOKEN"])
    status, out, _ = space.do("run", "a", "--", "sh", "-c", "echo $TENURE_TOKEN",
                              environment={"TENURE_TOKEN": "5"})
    assert int(out) > first, (first, out)


def descriptors(space):
    """Its own three and the session's, out of the way of what scripts use."""
    _, out, _ = space.do("run", "a", "--", "python3", "-c",
                         "import os; print(*sorted(os.listdir('/proc/self/fd'), key=int))")
    numbers = [int(number) for number in out.split()]
    assert numbers[:3] == [0, 1, 2], numbers
    assert len([number for number in numbers if number >= 64]) == 1, numbers
    assert len(numbers) == 5, numbers  # With the directory that it lists.


def closed_descriptors(space):
    """Standard descriptors that are missing stay missing, and nothing is written into a file."""
    for number in (0, 1, 2):
        status, _, _ = space.do("run", "a", "--", "python3", "-c",
                                f"import os; os._exit(os.path.exists('/proc/self/fd/{number}'))",
                                preexec_fn=lambda number=number: os.close(number))
        assert status == 0, (number, status)


def standard_input(space):
    assert space.do("run", "a", "--", "cat", input="one\ntwo\n") == (0, "one\ntwo\n", "")


def reader_sees_the_end(space):
    """Whoever reads the command's output sees its end when the command ends."""
    process = space.start("run", "a", "--", "sh", "-c", "exec echo over; ")
    assert finish(process) == (0, "over\n", "")


def signals_forwarded(space):
    numbers = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1,
               signal.SIGUSR2, signal.SIGWINCH, signal.SIGALRM, signal.SIGRTMIN + 3]
    script = space.script("catch", """
for number in map(int, sys.argv[1:]):
    signal.signal(number, lambda number, frame: ready(f"got {number}"))
ready()
while True:
    signal.pause()
""")
    process = space.start("run", "a", "--", script, *map(int, numbers))
    assert process.stdout.readline() == "ready\n"
    for number in numbers:
        process.send_signal(number)
        line = process.stdout.readline()
        assert line == f"got {int(number)}\n", (number, line)
    # The whole group of the command gets it, as from a terminal.
    both = space.start("run", "b", "--", "sh", "-c",
                       "trap 'echo outer; wait; exit 5' TERM; "
                       "(trap 'echo inner; exit' TERM; echo up; while :; do sleep 0.01; done) & "
                       "wait")
    assert both.stdout.readline() == "up\n"
    both.terminate()
    status, out, _ = finish(both)
    assert status == 5 and sorted(out.split()) == ["inner", "outer"], (status, out)


def ends_by_signal(space):
    """A command that makes no arrangements ends, and so does the wrapper, with 128+n."""
    process = space.start("run", "a", "--", "sleep", "1000")
    space.holding()
    process.terminate()
    assert finish(process) == (143, "", "")


def ignored_signals(space):
    """What was ignored at the start (nohup) stays so, here and in the command."""
    holder = space.hold("a")
    quiet = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    process = space.start("run", "a", "--quiet", "--", "sh", "-c", "kill -HUP $$; echo alive",
                          preexec_fn=quiet)
    space.waiting(1)
    process.send_signal(signal.SIGHUP)
    space.waiting(1)
    holder.stdin.close()
    assert finish(process) == (0, "alive\n", "")


def stop_and_continue(space):
    """With a group of its own: SIGTSTP stops the command, then the wrapper; SIGCONT both."""
    # Not a shell with children: while one is between vfork and exec, its parent can't stop.
    process = space.start("run", "a", "--", "sh", "-c", "echo $$; exec sleep 1000")
    command = int(process.stdout.readline())
    process.send_signal(signal.SIGTSTP)
    wait_for("the command to stop", lambda: state_of(command) == "T")
    wait_for("the wrapper to stop", lambda: state_of(process.pid) == "T")
    process.send_signal(signal.SIGCONT)
    wait_for("both to go on", lambda: "T" not in (state_of(command), state_of(process.pid)))
    # Whoever stops the command alone does not stop the wrapper: nobody would wake it.
    os.kill(command, signal.SIGSTOP)
    wait_for("the command to stop", lambda: state_of(command) == "T")
    assert state_of(process.pid) != "T"
    os.kill(command, signal.SIGCONT)
    process.terminate()
    assert finish(process)[0] == 143


def not_in_time(space):
    holder = space.hold("a")
    assert space.do("run", "a", "--try", "--quiet", "--", "true") == (75, "", "")
    assert space.do("run", "a", "--try", "-E", "9", "--", "true")[0] == 9
    assert space.do("run", "a", "--timeout", "100ms", "--quiet", "--", "true") == (75, "", "")
    assert space.do("run", "b", "a", "--timeout", "0s", "-E", "0", "--quiet", "--",
                    "false") == (0, "", "")
    assert space.do("run", "a/below", "--try", "--", "true")[0] == 75
    assert space.do("run", "b", "--try", "--", "true")[0] == 0
    assert len(space.tickets()) == 1
    holder.stdin.close()
    holder.wait()
    assert space.do("run", "a", "--try", "--", "true")[0] == 0


def interrupted_wait(space):
    """Ended at once, with nothing left in line."""
    space.hold("a")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
        process = space.start("run", "a", "--quiet", "--", "true")
        space.waiting(1)
        process.send_signal(number)
        assert finish(process) == (128 + number, "", "")
        assert len(space.tickets()) == 1


def stopped_wait(space):
    """Ctrl-Z while it waits."""
    holder = space.hold("a")
    process = space.start("run", "a", "--quiet", "--", "echo", "had")
    space.waiting(1)
    process.send_signal(signal.SIGTSTP)
    wait_for("the wrapper to stop", lambda: state_of(process.pid) == "T")
    process.send_signal(signal.SIGCONT)
    holder.stdin.close()
    assert finish(process) == (0, "had\n", "")


def waiting_message(space):
    holder = space.hold("a/b", "--label", "the\x1b[2J label")
    process = space.start("run", "a", "--", "true")
    line = process.stderr.readline()
    assert re.fullmatch(r"tenure: waiting for a: held by \S+-[0-9a-f]{12} 'the%1B\[2J label' "
                        rf"\(.+, pid {holder.pid}\) for \d+s; position 1\n", line), line
    behind = space.start("run", "a/c", "--", "true")
    line = behind.stderr.readline()
    assert re.fullmatch(r"tenure: waiting for a/c: queued behind \S+-[0-9a-f]{12} 'true' "
                        rf"\(.+, pid {process.pid}\), waiting for \d+s; position 2\n", line), line
    quiet = space.start("run", "a", "--quiet", "--", "true")
    space.waiting(3)
    holder.stdin.close()
    assert finish(process) == (0, "", "")
    assert finish(quiet) == (0, "", "")


def order(space):
    """First come, first served."""
    holder = space.hold("a")
    line = []
    for i in range(4):
        line.append(space.start("run", "a", "--quiet", "--", "sh", "-c", f"echo {i} >> order"))
        space.waiting(i + 1)
    holder.stdin.close()
    for process in line:
        assert process.wait() == 0
    assert space.file("order").read_text().split() == ["0", "1", "2", "3"]


def modes(space):
    reader = space.hold("a", "--shared")
    assert space.do("run", "a", "--shared", "--try", "--", "true")[0] == 0
    assert space.do("run", "a", "--group", "pull", "--try", "--", "true")[0] == 75
    assert space.do("run", "a", "--try", "--", "true")[0] == 75
    reader.stdin.close()
    reader.wait()
    first, second = space.hold("p", "--permits", "2"), space.hold("p", "--permits", "2")
    assert space.do("run", "p", "--permits", "2", "--try", "--", "true")[0] == 75
    status, _, error = space.do("run", "p", "--permits", "3", "--try", "--", "true")
    assert status == 1 and "permits" in error and error.count("\n") == 1, (status, error)
    for holder in (first, second):
        holder.stdin.close()
        holder.wait()
    three = space.hold("ram", "--permits", "4", "--take", "3")
    assert space.do("run", "ram", "--permits", "4", "--take", "2", "--try", "--", "true")[0] == 75
    assert space.do("run", "ram", "--permits", "4", "--try", "--", "true")[0] == 0
    claim = json.loads(space.do("ls", "--json")[1])["tickets"][0]["claims"][0]
    assert claim == {"path": "ram", "mode": "permits(4) take=3", "group": "permits", "limit": 4,
                     "take": 3}, claim
    three.stdin.close()
    three.wait()


def several_paths(space):
    """Together or not at all."""
    holder = space.hold("b")
    process = space.start("run", "a", "b", "c", "--quiet", "--", "true")
    space.waiting(1)
    # Its place in line counts on all of them.
    assert space.do("run", "c", "--try", "--", "true")[0] == 75
    holder.stdin.close()
    assert process.wait() == 0
    status, _, error = space.do("run", "a", "a", "--", "true")
    assert status == 2 and error.endswith("; see 'tenure run --help'\n"), (status, error)


def nested(space):
    """A child of the outer owner: what that holds it can never get, and hears so at once."""
    program = space.program
    status, _, error = space.do("run", "a", "--", program, "run", "a/b", "--", "true")
    assert status == 73 and "deadlock" in error, (status, error)
    assert re.search(r"waits for", error), error
    # Two levels up counts as well, and a reader below a reader is no trouble.
    status, _, error = space.do("run", "a", "--", program, "run", "b", "--", program, "run", "a",
                                "--", "true")
    assert status == 73, (status, error)
    assert space.do("run", "a", "--", program, "run", "b", "--", "sh", "-c",
                    "echo $TENURE_PATH")[:2] == (0, "b\n")
    assert space.do("run", "a", "--shared", "--", program, "run", "a", "--shared", "--",
                    "true")[0] == 0
    assert space.tickets() == []
    status, _, error = space.do("run", "a", "--", "true", environment={"TENURE_OWNER": "a//b"})
    assert status == 2 and "TENURE_OWNER" in error, (status, error)


def own_file(space):
    """Without a name for the space: a file of this user, and a word when it is made."""
    del space.environment["TENURE_SPACE"]
    file = space.file(".local/state/tenure/tenure.db")
    assert space.do("ls") == (0, "", "")
    assert not file.exists()
    status, out, error = space.do("run", "a", "--", "true")
    assert (status, out) == (0, "")
    assert error == (f"tenure: created '{file}'; its locks exclude only processes of this user "
                     "(see --space)\n"), error
    assert space.do("run", "a", "--", "true") == (0, "", "")
    for directory in (file.parent, file.parent.parent):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700, directory
    other = space.file("state")
    assert space.do("run", "a", "--quiet", "--", "true",
                    environment={"XDG_STATE_HOME": str(other)}) == (0, "", "")
    assert (other / "tenure/tenure.db").exists()


def chosen_space(space):
    """--space, then TENURE_SPACE."""
    space.hold("a")
    assert space.do("run", "a", "--try", "--space", f"sqlite:{space.file('other.db')}", "--",
                    "true")[0] == 0
    assert space.do("run", "a", "--try", "--", "true")[0] == 75
    for url in ("local:", "memory:", "nonsense", "sqlite:/no/such/directory/x.db"):
        status, out, error = space.do("run", "a", "--space", url, "--", "true")
        assert (status, out) == (1, "") and error.startswith("tenure: "), (url, status, error)
        assert error.count("\n") == 1, error


def release_is_done(space):
    """The lock is free when the wrapper has ended."""
    for _ in range(20):
        assert space.do("run", "a", "--try", "--", "true")[0] == 0


if __name__ == "__main__":
    main(globals())

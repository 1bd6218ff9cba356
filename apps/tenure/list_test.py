#!/usr/bin/env python3
"""tenure ls, tree, show, watch, evict, doctor, bench: what they print, and as JSON.

    list_test.py CASE PROGRAM
"""
import contextlib
import json
import os
import re
import signal
import sqlite3

from harness import LIMIT, children, finish, is_running, main, guardian_of, wait_for


def _crowd(space):
    """A reader above two that wait, and one beside them."""
    holders = [space.hold("book", "--shared", "--label", "index"), space.hold("magazine/7")]
    holders.append(space.start("run", "book/3", "--quiet", "--label", "edit", "--", "true"))
    space.waiting(1)
    holders.append(space.start("run", "book/3", "--permits", "2", "--quiet", "--", "true"))
    space.waiting(2)
    return holders


def ls(space):
    holders = _crowd(space)
    status, out, error = space.do("ls")
    assert (status, error) == (0, ""), error
    lines = out.splitlines()
    assert lines[0].split() == ["PATH", "MODE", "STATE", "POS", "SINCE", "OWNER", "TOKEN", "HOST",
                                "PID", "LABEL"], lines
    rows = [re.split(r"  +", line) for line in lines[1:]]
    assert [row[:3] for row in rows] == [
        ["book", "shared", "holds"], ["book/3", "exclusive", "waits"],
        ["book/3", "permits(2)", "waits"], ["magazine/7", "exclusive", "holds"]], rows
    assert [row[3] for row in rows[1:3]] == ["1", "2"], rows
    assert rows[0][-2:] == [str(holders[0].pid), "index"], rows
    assert rows[2][-1] == "true", rows  # The command's name, where there is no label.
    assert not re.search(r" $", out, re.MULTILINE), out
    assert len(space.do("ls", "magazine")[1].splitlines()) == 2
    assert len(space.do("ls", "book/3/chapter")[1].splitlines()) == 4
    assert space.do("ls", "newspaper") == (0, "", "")


def as_json(space):
    holders = _crowd(space)
    documents = [json.loads(space.do(command, "--json")[1]) for command in ("ls", "tree")]
    assert documents[0]["tickets"] == documents[1]["tickets"]
    document = documents[0]
    assert list(document) == ["space", "now", "tickets"]
    assert document["space"] == space.environment["TENURE_SPACE"]
    tickets = document["tickets"]
    assert [ticket["state"] for ticket in tickets] == ["holds", "holds", "waits", "waits"]
    assert [ticket["position"] for ticket in tickets] == [0, 0, 1, 2]
    tokens = [ticket["token"] for ticket in tickets]
    assert all(isinstance(token, str) for token in tokens)
    assert sorted(tokens, key=int) == tokens
    for ticket, holder in zip(tickets, holders):
        assert list(ticket) == ["token", "state", "position", "claims", "owner", "session",
                                "anchor", "host", "pid", "label", "since", "deadline",
                                "asked_to_leave", "fault", "blocked_by"], ticket
        assert ticket["anchor"] is None, ticket
        assert ticket["pid"] == holder.pid and ticket["host"] == os.uname().nodename
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", ticket["since"]), ticket
        assert ticket["deadline"] is None and re.fullmatch(r"[0-9a-f]{16}", ticket["session"])
    assert tickets[0]["claims"] == [{"path": "book", "mode": "shared", "group": "shared"}]
    assert tickets[1]["claims"] == [{"path": "magazine/7", "mode": "exclusive"}]
    assert tickets[3]["claims"] == [{"path": "book/3", "mode": "permits(2)", "group": "permits",
                                     "limit": 2, "take": 1}]
    assert tickets[2]["blocked_by"] == [tokens[0]]
    assert tokens[2] in tickets[3]["blocked_by"]
    assert json.loads(space.do("show", "magazine", "--json")[1])["tickets"] == [tickets[1]]


def tree(space):
    _crowd(space)
    status, out, error = space.do("tree")
    assert (status, error) == (0, ""), error
    shape = [re.sub(r": .*", "", line) for line in out.splitlines()]
    assert shape == ["/",
                     "├─ book",
                     "│  │ ┃ holds shared",
                     "│  └─ 3",
                     "│       ┊ waits, position 1",
                     "│       ┊ waits, position 2 permits(2)",
                     "└─ magazine",
                     "   └─ 7",
                     "        ┃ holds"], out
    assert "'index' (" in out


def show(space):
    holders = _crowd(space)
    status, out, error = space.do("show", "book/3")
    assert (status, error) == (0, ""), error
    blocks = [block.splitlines() for block in out.split("\n\n")]
    assert len(blocks) == 3, out
    tokens = [block[0].split()[0] for block in blocks]
    assert [block[0].split()[1] for block in blocks] == ["holds", "waits", "waits"], out
    fields = [dict(re.split(r"  +", line.strip(), maxsplit=1) if "  " in line.strip()
                   else line.strip().rsplit(" ", 1) for line in block[1:]) for block in blocks]
    assert fields[0]["claim"] == "book:shared" and fields[1]["claim"] == "book/3", fields
    assert fields[1]["position"] == "1" and fields[1]["blocked by"] == tokens[0], fields
    assert fields[0]["pid"] == str(holders[0].pid) and fields[1]["label"] == "edit", fields
    assert re.search(r"Z \(\d+s ago\)$", fields[0]["since"]), fields
    assert "book is free" not in out
    assert space.do("show", "newspaper")[1].startswith("newspaper is free")


def show_several_claims(space):
    holder = space.hold("a", "b/c", "--max-hold", "1h")
    out = space.do("show", "b")[1]
    assert re.search(r"claim +a\n +claim +b/c\n", out), out
    assert re.search(r"deadline +\S+Z \(in 59m\d\ds\)\n", out) or "(in 1h00m)" in out, out
    assert len(space.do("ls")[1].splitlines()) == 3
    holder.stdin.close()


def no_such_space(space):
    """What only looks makes no file, and says so."""
    for command in (["ls"], ["tree"], ["show", "a"], ["watch"], ["doctor"], ["evict", "1"],
                    ["doctor", "--new-epoch"]):
        status, out, error = space.do(*command)
        assert (status, out) == (1, ""), (command, out)
        assert error == (f"tenure: there is no file '{space.file('space.db')}': 'tenure run' "
                         "creates it\n"), error
    assert not space.file("space.db").exists()


def evict(space):
    holder = space.hold("a")
    token = space.tickets()[0]["token"]
    status, out, error = space.do("evict", str(int(token) + 1))
    assert (status, out) == (1, "") and "no ticket" in error, (status, error)
    status, out, _ = space.do("evict", token, "--json")
    assert status == 0 and json.loads(out) == {"token": token, "evicted": True}, out
    assert holder.wait() == 74
    status, out, _ = space.do("evict", token, "--json")
    assert status == 1 and json.loads(out) == {"token": token, "evicted": False}, out


def watch_changes(space):
    """Not on a terminal: one list for each change, and no more."""
    space.do("run", "a", "--", "true")
    process = space.start("watch", "--json")
    seen = lambda: [ticket["claims"][0]["path"]
                    for ticket in json.loads(process.stdout.readline())["tickets"]]
    assert seen() == []
    first = space.hold("a")
    assert seen() == ["a"]
    second = space.hold("b")
    assert seen() == ["a", "b"]
    first.stdin.close()
    assert seen() == ["b"]
    process.terminate()
    assert process.wait() == 143
    process = space.start("watch", "b")
    assert re.match(r"\d{4}-.*Z\n", process.stdout.readline())
    assert process.stdout.readline().startswith("PATH ")
    assert process.stdout.readline().startswith("b ")
    process.send_signal(signal.SIGINT)
    assert process.wait() == 0
    second.stdin.close()


def watch_without_reader(space):
    """It ends when nobody reads any more, although nothing changes."""
    space.do("run", "a", "--", "true")
    process = space.start("watch", "--json")
    process.stdout.readline()
    process.stdout.close()
    process.wait()


def doctor(space):
    _crowd(space)
    status, out, error = space.do("doctor")
    assert (status, error) == (0, ""), (status, out, error)
    assert out.startswith(space.environment["TENURE_SPACE"] + "\n"), out
    assert re.search(r"^  owner +user \d+, group \d+$", out, re.MULTILINE), out
    assert re.search(r"^  lock and release +\d", out, re.MULTILINE), out
    assert out.endswith("No problems found.\n"), out
    document = json.loads(space.do("doctor", "--json")[1])
    assert list(document) == ["space", "facts", "sessions", "problems", "notes"]
    assert document["problems"] == []
    labels = [session["label"] for session in document["sessions"]]
    assert {"index", "edit"} <= set(labels), labels
    assert all(session["alive"] for session in document["sessions"])
    space.file("space.db").chmod(0o666)
    status, out, _ = space.do("doctor")
    assert status == 1 and "problem: every user of this machine can write" in out, (status, out)


def doctor_finds_the_dead(space):
    """And leaves them to the next one who locks."""
    def dead():
        sessions = json.loads(space.do("doctor", "--json")[1])["sessions"]
        return [session["pid"] for session in sessions if not session["alive"]]
    holder = space.hold("a")
    command = space.start("run", "b", "--", "sleep", "100")
    space.holding(2)
    assert dead() == []
    guardian = guardian_of(command)
    family = [command.pid, guardian, *children(guardian)]
    command.kill()
    wait_for("all of it to be gone", lambda: not any(is_running(pid) for pid in family))
    assert dead() == [command.pid]
    assert space.do("run", "b", "--try", "--", "true")[0] == 0
    assert dead() == []
    holder.stdin.close()


def options_before_the_command(space):
    """Those that most commands have; of several the last one counts."""
    url = f"sqlite:{space.file('other.db')}"
    for before in (["--space", url], [f"--space={url}"],
                   ["--space", "sqlite:/no/such", "--space", url]):
        assert space.do(*before, "run", "a/b", "--", "true")[0] == 0
        status, out, error = space.do(*before, "--json", "ls", "a")
        assert (status, error) == (0, ""), (status, error)
        assert json.loads(out)["space"] == url, out
    assert json.loads(space.do("--space", "sqlite:/no/such", "--json", "ls", "--space", url)[1])
    assert space.do("--json", "--version") == space.do("--version")
    assert space.do("--space", url, "--help") == space.do("--help")
    assert "[--space URL] [--json] COMMAND" in space.do("--help")[1]


def paths_as_people_type_them(space):
    """Slashes at the ends, spaces, quotes and any bytes; lists show the text of the path."""
    cases = {"/deploy/prod": "deploy/prod", "deploy/prod/": "deploy/prod", "/": "/",
             "a b": "a%20b", "a%20b": "a%20b", 'say "hi"/x': "say%20%22hi%22/x",
             "'q'": "'q'", '""/a': '""/a', "caf\xe9": "caf\xe9", "tab\there": "tab%09here",
             os.fsdecode(b"caf\xe9"): "caf%E9", "100%25": "100%25"}
    for typed, text in cases.items():
        holder = space.hold(typed)
        for path in (typed, text):
            [ticket] = space.tickets(path)
            assert [claim["path"] for claim in ticket["claims"]] == [text], (typed, ticket)
        assert text in space.do("show", typed)[1], typed
        assert space.do("run", text, "--try", "--quiet", "--", "true")[0] == 75, typed
        holder.stdin.close()
        assert holder.wait(LIMIT) == 0
    status, out, _ = space.do("run", "/a b/", "c", "--", "sh", "-c", "echo $TENURE_PATH")
    assert (status, out) == (0, "a%20b c\n"), out


def any_bytes(space):
    """A label that is not UTF-8 is listed by all commands, and the ticket can be evicted."""
    latin = os.fsdecode(b"caf\xe9")
    holder = space.hold("a", "--label", latin)
    space.start("run", "a", "--quiet", "--", "true")
    space.waiting(1)
    for command in (["ls"], ["tree"], ["show", "a"], ["doctor"]):
        status, out, error = space.do(*command)
        assert (status, error) == (0, "") and "caf%E9" in out, (command, status, out, error)
    first, second = space.tickets()
    assert (first["label"], first["fault"]) == ("caf%E9", None), first
    assert second["blocked_by"] == [first["token"]], second
    sessions = json.loads(space.do("doctor", "--json")[1])["sessions"]
    assert "caf%E9" in [session["label"] for session in sessions], sessions
    assert space.do("evict", "--now", first["token"])[0] == 0
    finish(holder)


def unreadable_entries(space):
    """doctor names what cannot be read, and evict removes it."""
    assert space.do("run", "b", "--", "true")[0] == 0
    with contextlib.closing(sqlite3.connect(space.file("space.db"))) as database, database:
        for key in (b"\x01\x01\x01a\x00" + (7).to_bytes(8, "big"), b"\x02zz"):
            database.execute("INSERT INTO entry VALUES (?, ?, 1, 1)", (key, b"caf\xe9"))
    status, out, error = space.do("run", "a", "--", "true")
    assert status == 1 and "tenure evict 7" in error, (status, out, error)
    status, out, error = space.do("run", "b", "--", "true")
    assert (status, error) == (0, ""), (status, error)
    [ticket] = space.tickets()
    assert ticket["token"] == "7" and ticket["claims"][0]["path"] == "a", ticket
    assert ticket["fault"], ticket
    assert "unreadable" in space.do("ls")[1]
    assert "unreadable" in space.do("tree")[1]
    assert re.search(r"^  unreadable +\S", space.do("show", "a")[1], re.MULTILINE)
    status, out, _ = space.do("doctor", "--json")
    problems = json.loads(out)["problems"]
    assert status == 1 and len(problems) == 2, problems
    for token in ("7", "0"):
        assert any(f"'tenure evict {token}'" in problem for problem in problems), problems
        assert space.do("evict", token)[0] == 0
    assert json.loads(space.do("doctor", "--json")[1])["problems"] == []
    assert space.do("run", "a", "--", "true")[0] == 0


def anchored_tickets(space):
    """A ticket that hangs on a key is listed as any other, until the key goes."""
    assert space.do("run", "b", "--", "true")[0] == 0
    row = {"format": 2, "anchor": ["key", "orders%2F7"], "by": "0" * 16, "request": 1,
           "claims": [["a"]], "since": 1, "label": "import"}
    key = b"\x01\x01\x01a\x00" + (7).to_bytes(8, "big")

    def write(sql, *values):
        with contextlib.closing(sqlite3.connect(space.file("space.db"))) as database, database:
            database.execute(sql, values)

    write("INSERT INTO entry VALUES (?, '', 1, 1)", b"orders/7")
    write("INSERT INTO entry VALUES (?, ?, 7, 7)", key, json.dumps(row).encode())
    [ticket] = space.tickets()
    assert (ticket["token"], ticket["anchor"], ticket["state"]) == ("7", "orders%2F7", "holds")
    assert "import" in space.do("ls")[1]
    assert "[orders%2F7]" in space.do("tree")[1]
    assert re.search(r"^  anchor +orders%2F7$", space.do("show", "a")[1], re.MULTILINE)
    assert space.do("run", "a", "--try", "--quiet", "--", "true")[0] == 75
    status, out, _ = space.do("doctor", "--json")
    document = json.loads(out)
    assert (status, document["problems"]) == (0, []), document
    assert document["facts"]["anchored tickets"] == "1 on 1 keys", document
    write("DELETE FROM entry WHERE key = ?", b"orders/7")
    notes = json.loads(space.do("doctor", "--json")[1])["notes"]
    assert any("one ticket is anchored on keys that are gone" in note for note in notes), notes
    assert space.do("run", "a", "--", "true")[0] == 0


def newer_tickets(space):
    """A ticket of a later version is left alone, and named."""
    assert space.do("run", "b", "--", "true")[0] == 0
    row = {"format": 99, "session": "0" * 16, "request": 1, "claims": [["a"]], "since": 1}
    key = b"\x01\x01\x01a\x00" + (7).to_bytes(8, "big")
    with contextlib.closing(sqlite3.connect(space.file("space.db"))) as database, database:
        database.execute("INSERT INTO entry VALUES (?, ?, 7, 7)", (key, json.dumps(row).encode()))
    for command in (["run", "a", "--", "true"], ["evict", "7"], ["evict", "--now", "7"]):
        status, _, error = space.do(*command)
        assert status == 1 and "newer version of Tenure" in error, (command, status, error)
    status, out, _ = space.do("doctor", "--json")
    [problem] = json.loads(out)["problems"]
    assert status == 1 and "update this program" in problem, problem
    assert [ticket["token"] for ticket in space.tickets()] == ["7"]


def new_epoch(space):
    """Tokens after it are larger than all before it."""
    status, out, _ = space.do("run", "a", "--", "sh", "-c", "echo $TENURE_TOKEN")
    before = int(out)
    status, out, error = space.do("doctor", "--new-epoch")
    assert (status, error) == (0, ""), (status, error)
    after = int(space.do("run", "a", "--", "sh", "-c", "echo $TENURE_TOKEN")[1])
    assert after > before + 2**20, (before, after)


def bench(space):
    for options in ([], ["--mode", "shared", "--keys", "3"],
                    ["--mode", "permits", "--permits", "3", "--processes", "2"],
                    ["--space", f"sqlite:{space.file('b.db')}", "--hold", "1ms"],
                    ["--space", "local:"]):
        status, out, error = space.do("bench", "--seconds", "1", "--clients", "4", "--json",
                                      *options)
        assert (status, error) == (0, ""), (options, status, error)
        document = json.loads(out)
        assert document["operations"] > 0 and document["clients"] == 4, document
        lock = document["lock_ns"]
        assert lock["count"] == document["operations"], document
        assert 0 < lock["p50"] <= lock["p99"] <= lock["p999"] <= lock["max"], document
    out = space.do("bench", "--seconds", "1", environment={"TMPDIR": str(space.directory)})[1]
    assert re.search(r"^  locks +\d+ +\d+ per second\n +p50 +p99 +p99.9 +max\n  lock  ", out,
                     re.MULTILINE), out
    temporary = [name for name in os.listdir(space.directory) if name.startswith("tenure-")]
    assert temporary == [], temporary


def bench_interrupted(space):
    """Ctrl-C: everything goes, the temporary file too."""
    process = space.start("bench", "--seconds", "100", "--processes", "2",
                          environment={"TMPDIR": str(space.directory)})
    wait_for("its file", lambda: list(space.directory.glob("tenure-*/bench.db")))
    process.send_signal(signal.SIGINT)
    assert finish(process)[0] == 130
    assert list(space.directory.glob("tenure-*")) == []


if __name__ == "__main__":
    main(globals())

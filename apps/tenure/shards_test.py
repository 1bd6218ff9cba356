#!/usr/bin/env python3
"""A sharded space on the command line: two files, of which one goes away.

    shards_test.py CASE PROGRAM
"""
import json
import time

from harness import main, wait_for


def _sharded(space, names=("a", "b")):
    lines = [f"{name} sqlite:{space.directory}/{name}.db" for name in ("a", "b", "c")]
    space.file("list").write_text("# Shards\n" + "\n".join(lines) + "\n")
    space.file("space.db").touch()  # What tickets() looks for.
    space.environment["TENURE_SPACE"] = f"sharded:{space.directory}/list"
    if names:
        status, out, error = space.do("shards", "set", *names)
        assert (status, error) == (0, ""), (status, out, error)


def _root(space, shard):
    """A path that lies there."""
    names = [f"r{number}" for number in range(64)]
    status, out, error = space.do("shards", "where", *names)
    assert (status, error) == (0, ""), error
    return next(line.split()[1] for line in out.splitlines() if line.split()[0] == shard)


def shards_list_and_change(space):
    _sharded(space, names=())
    status, out, error = space.do("ls")
    assert status == 1 and "tenure shards set" in error, error
    status, out, error = space.do("shards")
    assert status == 1 and "There is no map yet" in out, out
    status, out, error = space.do("shards", "set", "b", "a")
    assert (status, error) == (0, ""), error
    document = json.loads(space.do("shards", "--json")[1])
    assert (document["version"], document["names"]) == (1, ["a", "b"]), document
    assert [shard["in_map"] for shard in document["shards"]] == [True, True, False], document
    roots = {name: _root(space, name) for name in ("a", "b")}
    holder = space.hold(roots["a"])
    # Tokens begin with the second in which their store was made.
    made = time.time()
    wait_for("a later second", lambda: time.time() > made + 2)
    status, out, error = space.do("shards", "set", "c")
    assert status == 1 and "live tickets are of roots that would move" in error, error
    holder.stdin.close()
    assert holder.wait() == 0
    status, out, error = space.do("shards", "set", "c", "--wait", "10s")
    assert (status, error) == (0, ""), error
    assert space.do("run", roots["a"], "--", "true")[0] == 0
    status, out, error = space.do("shards", "set", "a")
    assert status == 1 and "smaller tokens" in error, error
    assert space.do("shards", "remove")[0] == 2
    assert space.do("shards", "set")[0] == 2


def shards_run_and_lists(space):
    _sharded(space)
    roots = [_root(space, name) for name in ("a", "b")]
    holders = [space.hold(root) for root in roots]
    space.holding(2)
    assert sorted(line.split()[0] for line in space.do("ls")[1].splitlines()[1:]) == sorted(roots)
    assert all(root in space.do("tree")[1] for root in roots)
    waiter = space.start("run", roots[0], "--timeout", "30s", "--", "true")
    space.waiting(1)
    token = next(ticket["token"] for ticket in space.tickets() if ticket["state"] == "waits")
    assert space.do("evict", token)[0] == 0
    assert waiter.wait() == 74
    status, out, error = space.do("run", *roots, "--", "true")
    assert status == 2 and "must lie in one shard" in error, error
    assert space.do("run", roots[0], "--try", "--", "true")[0] == 75
    status, out, error = space.do("doctor", "--json")
    assert (status, error) == (0, ""), (status, out, error)
    assert [shard["problems"] for shard in json.loads(out)["shards"]] == [[], []], out
    status, out, error = space.do("bench", "--keys", "16", "--seconds", "1", "--space",
                                  space.environment["TENURE_SPACE"])
    assert (status, error) == (0, ""), error
    for holder in holders:
        holder.stdin.close()
        assert holder.wait() == 0


def shards_list_what_answers(space):
    _sharded(space)
    root = _root(space, "b")
    space.do("run", root, "--", "true")
    holder = space.hold(root)
    for file in space.directory.glob("a.db*"):
        file.unlink()
    space.file("a.db").write_text("This is not a database.\n" * 100)
    status, out, error = space.do("ls")
    assert status == 0 and root in out, out
    assert error.startswith("tenure: not listed: shard 'a' (sqlite:"), error
    tickets = json.loads(space.do("ls", "--json")[1])["tickets"]
    assert [bool(ticket["fault"]) for ticket in tickets] == [True, False], tickets
    status, out, error = space.do("doctor")
    assert status == 1 and "shard a: sqlite:" in out, out
    assert space.do("shards")[0] == 1
    holder.stdin.close()
    assert holder.wait() == 0


if __name__ == "__main__":
    main(globals())

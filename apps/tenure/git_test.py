#!/usr/bin/env python3
"""tenure git: a command in a worktree, committed and pushed, with real repositories and real git.

    git_test.py CASE PROGRAM
"""
import os
import pathlib
import random
import re
import signal
import subprocess
import time

from harness import finish, is_running, main, wait_for


class Repositories:
    """A remote with one commit, and a clone of it that belongs to a person."""

    def __init__(self, space):
        self.space = space
        config = space.file("gitconfig")
        config.write_text("[user]\n name = Test\n email = test@example.org\n"
                          "[init]\n defaultBranch = main\n")
        space.environment |= {"GIT_CONFIG_GLOBAL": str(config), "GIT_CONFIG_NOSYSTEM": "1"}
        self.remote = space.file("remote.git")
        self.clone = space.file("clone")
        self.git("init", "-q", "--bare", self.remote)
        self.git("clone", "-q", self.remote, self.clone)
        (self.clone / "count").write_text("0\n")
        self.git("add", "-A", cwd=self.clone)
        self.git("commit", "-q", "-m", "start", cwd=self.clone)
        self.git("push", "-q", "origin", "main", cwd=self.clone)

    def git(self, *words, cwd=None):
        done = subprocess.run(["git", *map(str, words)], cwd=cwd or self.space.directory, text=True,
                              env=self.space.environment, capture_output=True, check=False)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout.rstrip("\n")

    def at_remote(self, *words):
        return self.git("-C", self.remote, *words)

    def head(self):
        return self.at_remote("rev-parse", "main")

    def shown(self, name):
        return self.at_remote("show", f"main:{name}")

    def do(self, *words, **options):
        return self.space.do("git", "--remote", self.remote, "--branch", "main", *words, **options)

    def push_foreign(self, name, text):
        self.git("pull", "-q", "--rebase", cwd=self.clone)
        (self.clone / name).write_text(text)
        self.git("add", "-A", cwd=self.clone)
        self.git("commit", "-q", "-m", "foreign", cwd=self.clone)
        self.git("push", "-q", "origin", "main", cwd=self.clone)

    def worktrees(self):
        return sorted(self.space.file(".cache/tenure/git").glob("*/*/tree"))


ADD_ONE = ("sh", "-c", "echo $(( $(cat count) + 1 )) >count")


def git_pushes(space):
    there = Repositories(space)
    status, out, error = there.do("-m", "Count", "--", *ADD_ONE)
    assert (status, out) == (0, ""), (status, out, error)
    assert re.fullmatch(r"tenure: pushed [0-9a-f]{12} to branch 'main'\n", error), error
    assert there.shown("count") == "1"
    body = there.at_remote("log", "-1", "--format=%B", "main")
    assert re.fullmatch(r"Count\n\nTenure-Token: \d+\n*", body), body
    # Nothing changed, nothing pushed.
    head = there.head()
    assert there.do("--", "true") == (0, "", "tenure: no changes: pushed nothing\n")
    assert there.do("--quiet", "--", "true") == (0, "", "")
    assert there.head() == head
    # The name of the command, never its arguments.
    assert there.do("--quiet", "--", *ADD_ONE)[0] == 0
    assert there.at_remote("log", "-1", "--format=%s", "main") == "Run sh"


def git_finds_the_repository(space):
    """Remote and branch are those of the current directory, with its hooks and configuration."""
    there = Repositories(space)
    (there.clone / "sub").mkdir()
    there.git("config", "user.name", "Local", cwd=there.clone)
    hook = there.clone / ".git/hooks/commit-msg"
    hook.write_text("#!/bin/sh\necho 'Checked-by: hook' >>\"$1\"\n")
    hook.chmod(0o755)
    (there.clone / "count").write_text("not committed\n")
    status, out, error = space.do("git", "--", *ADD_ONE, cwd=there.clone / "sub")
    assert (status, out) == (0, ""), (status, out, error)
    assert there.shown("count") == "1"
    assert there.at_remote("log", "-1", "--format=%an", "main") == "Local"
    assert "Checked-by: hook" in there.at_remote("log", "-1", "--format=%B", "main")
    assert (there.clone / "count").read_text() == "not committed\n"
    assert there.git("status", "--porcelain", cwd=there.clone) == " M count"
    there.git("fsck", "--strict", cwd=there.clone)
    # Another branch of the same remote.
    there.git("push", "-q", "origin", "HEAD:other", cwd=there.clone)
    assert space.do("git", "--branch", "other", "--quiet", "--", "sh", "-c", "echo 7 >count",
                    cwd=there.clone)[0] == 0
    assert there.at_remote("show", "other:count") == "7"
    assert there.shown("count") == "1"


def git_wrong_arguments(space):
    there = Repositories(space)
    assert space.do("git") == (
        2, "", "tenure: no command given: put it after --; see 'tenure git --help'\n")
    status, _, error = space.do("git", "--", "true", cwd="/")
    assert status == 1 and "is not in a git repository" in error, error
    assert "--remote and --branch" in error, error
    status, _, error = space.do("git", "--remote", there.remote, "--branch", "a b", "--", "true")
    assert status == 2 and "'a b' is not the name of a branch" in error, error
    assert there.do("--", "no-such-command-anywhere") == (
        127, "", "tenure: no-such-command-anywhere: command not found\n")
    status, _, error = space.do("git", "--remote", there.remote, "--branch", "x", "--", "true")
    assert status == 1 and "has no branch 'x'" in error, error
    assert error.count("\n") == 1, error


def git_keeps_the_exit_status(space):
    there = Repositories(space)
    head = there.head()
    assert there.do("--", "sh", "-c", "echo 9 >count; exit 7") == (7, "", "")
    assert there.do("--", "sh", "-c", "kill -TERM $$")[0] == 128 + signal.SIGTERM
    assert there.head() == head
    assert there.do("--quiet", "--", *ADD_ONE) == (0, "", "")
    assert there.shown("count") == "1"


def git_dry_run(space):
    there = Repositories(space)
    head = there.head()
    status, out, error = there.do("--dry-run", "--", *ADD_ONE)
    assert (status, error) == (0, ""), error
    assert "--- a/count\n+++ b/count\n@@ -1 +1 @@\n-0\n+1\n" in out, out
    assert there.head() == head
    assert there.do("--dry-run", "--", "true") == (0, "", "")


def git_retries_run_out(space):
    """Each time the command runs, somebody else pushes first."""
    there = Repositories(space)
    script = space.script("push_first", f"""
clone = {str(there.clone)!r}
with open({str(space.file('ran'))!r}, 'a') as ran: ran.write('x')
def git(*words): subprocess.run(['git', '-C', clone, *words], check=True)
git('pull', '-q', '--rebase')
git('commit', '-q', '--allow-empty', '-m', 'first')
git('push', '-q', 'origin', 'main')
open('count', 'w').write('mine')
""")
    status, out, error = there.do("--attempts", "3", "--", script)
    assert (status, out) == (75, ""), (status, error)
    assert "gave up after 3 attempts" in error, error
    assert space.file("ran").read_text() == "xxx"
    assert there.shown("count") == "0"


def git_command_environment(space):
    there = Repositories(space)
    status, out, _ = there.do("--quiet", "--", "sh", "-c",
                              "git rev-parse --show-toplevel; git status --porcelain; env",
                              environment={"GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere"})
    assert status == 0
    first, *rest = out.splitlines()
    assert pathlib.Path(first) == there.worktrees()[0], first
    set_ = dict(line.split("=", 1) for line in rest)
    assert int(set_["TENURE_TOKEN"]) > 0 and set_["TENURE_PATH"].startswith("tenure.git/"), set_
    assert "GIT_DIR" not in set_ and "GIT_INDEX_FILE" not in set_


def git_waits_for_the_lock(space):
    there = Repositories(space)
    first = space.start("git", "--remote", there.remote, "--branch", "main", "--", "sh", "-c",
                        "echo here; read line; echo 1 >first", stdin=subprocess.PIPE)
    assert first.stdout.readline() == "here\n"
    second = space.start("git", "--remote", there.remote, "--branch", "main", "--quiet", "--",
                         "sh", "-c", "cat first >second")
    space.waiting(1)
    path = space.tickets()[0]["claims"][0]["path"]
    assert path.startswith("tenure.git/") and path.endswith("/main"), path
    first.communicate("\n")
    assert finish(second) == (0, "", "")
    assert there.shown("second") == "1"


def git_ends_what_the_command_left(space):
    """A process in the background could still write while the files are committed."""
    there = Repositories(space)
    pid_file = space.file("pid")
    status, _, error = there.do("--quiet", "--", "sh", "-c",
                                f"setsid sleep 1000 & echo $! >{pid_file}; echo 1 >count")
    assert status == 0, error
    assert not is_running(int(pid_file.read_text()))
    assert there.shown("count") == "1"


def git_interrupted(space):
    there = Repositories(space)
    # While the command runs, the signal is the command's.
    running = space.start("git", "--remote", there.remote, "--branch", "main", "--", "sh", "-c",
                          "echo here; exec sleep 1000")
    assert running.stdout.readline() == "here\n"
    running.send_signal(signal.SIGINT)
    assert finish(running)[0] == 128 + signal.SIGINT
    # While git pushes, it ends git, and nothing is left in the queue.
    hook = there.remote / "hooks/pre-receive"
    hook.write_text(f"#!/bin/sh\necho $$ >{space.file('hook')}\nexec sleep 1000\n")
    hook.chmod(0o755)
    pushing = space.start("git", "--remote", there.remote, "--branch", "main", "--", *ADD_ONE)
    wait_for("the hook", lambda: space.file("hook").exists() and space.file("hook").read_text())
    pushing.send_signal(signal.SIGTERM)
    status, _, error = finish(pushing)
    assert status == 128 + signal.SIGTERM, (status, error)
    assert not is_running(int(space.file("hook").read_text()))
    assert space.tickets() == []
    hook.unlink()
    assert there.do("--quiet", "--", *ADD_ONE) == (0, "", "")
    assert there.shown("count") == "1"


def git_killed(space):
    """SIGKILL at random moments; the next run finds nothing half done, and cleans up."""
    there = Repositories(space)
    seed = int.from_bytes(os.urandom(4), "big")
    print("seed", seed)
    dice = random.Random(seed)
    begun = time.monotonic()
    assert there.do("--quiet", "--", *ADD_ONE)[0] == 0
    length = time.monotonic() - begun
    for run in range(int(os.environ.get("TENURE_GIT_KILLS", "12"))):
        before = int(there.shown("count"))
        victim = space.start("git", "--remote", there.remote, "--branch", "main", "--quiet", "--",
                             "sh", "-c", "mkdir -p part; echo half >part/$$; " + ADD_ONE[2] +
                             "; rm -r part")
        time.sleep(dice.uniform(0, length))
        victim.kill()
        victim.wait()
        # A push that has begun ends by itself, and has the lock until then.
        wait_for("the end of its git", lambda: space.tickets() == [])
        after = int(there.shown("count"))
        assert after - before in (0, 1), (run, before, after)
        if run % 4 == 3:
            next_run = there.do("--quiet", "--", *ADD_ONE)
            assert next_run == (0, "", ""), (run, next_run)
    final = int(there.shown("count"))
    assert int(there.at_remote("rev-list", "--count", "main")) == final + 1
    assert there.at_remote("rev-list", "--merges", "main") == ""
    assert there.at_remote("ls-tree", "-r", "--name-only", "main") == "count"
    there.at_remote("fsck", "--strict")
    assert there.do("--quiet", "--", *ADD_ONE) == (0, "", "")
    wait_for("an empty queue", lambda: space.tickets() == [])
    assert len(there.worktrees()) == 1, there.worktrees()
    slot = there.worktrees()[0].parent
    assert not (slot / "busy").exists()
    assert list(slot.rglob("*.lock")) == [], list(slot.rglob("*.lock"))


def git_secrets_are_not_shown(space):
    Repositories(space)
    status, out, error = space.do("git", "--remote", "https://ann:secret@127.0.0.1:1/x.git",
                                  "--branch", "main", "--", "true")
    assert status == 1 and "secret" not in out + error, (status, error)
    assert "https://127.0.0.1:1/x.git" in error, error


if __name__ == "__main__":
    main(globals())

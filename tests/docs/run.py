#!/usr/bin/env python3
"""Runs a block of shell commands or SQL out of a document.

    run.py x.sh PROGRAM

It stands in tests/docs/x.sh, in a directory of its own, with PROGRAM as `tenure`. Of servers that
the line `# needs:` names, POSTGRES_URL, ETCD_URL and ETCDCTL_ENDPOINTS say where they are.
"""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "apps" / "tenure"), str(ROOT / "tools")]

import check_docs  # noqa: E402
import harness  # noqa: E402
import servers  # noqa: E402


def main(name, program):
    template = (ROOT / "tests" / "docs" / name).read_text(encoding="utf-8")
    needs = re.search(r"^# needs: (.*)$", template, re.MULTILINE)
    needed = needs.group(1).split() if needs else []
    with contextlib.ExitStack() as stack:
        top = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tenure-docs-")))
        here = top / "here"
        here.mkdir()
        environment = {**os.environ, "HOME": str(here), "ETCDCTL_API": "3",
                       "PATH": f"{pathlib.Path(program).parent}:{os.environ['PATH']}"}
        for other in ("TENURE_SPACE", "XDG_STATE_HOME"):
            environment.pop(other, None)
        if "postgres" in needed:
            server = servers.Postgres(top / "postgres")
            stack.callback(server.stop)
            environment["POSTGRES_URL"] = server.url()
        if "etcd" in needed:
            server = servers.Etcd(top / "etcd")
            stack.callback(server.stop)
            environment["ETCD_URL"] = server.url()
            environment["ETCDCTL_ENDPOINTS"] = f"127.0.0.1:{server.port}"
        check_docs.fill(name, top / name)
        shell = subprocess.Popen(["bash", "-euo", "pipefail", str(top / name)], cwd=here,
                                 env=environment, start_new_session=True)
        try:
            return shell.wait(timeout=harness.LIMIT)
        finally:  # What it left in the background ends with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

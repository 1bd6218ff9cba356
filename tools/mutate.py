#!/usr/bin/env python3
"""Plants the bugs of tests/mutations, one at a time, and expects the named test to catch each.

    mutate.py [NAME ...]     all of them, or these

Works in a copy of the source tree in build/mutations, which stays for the next run. A bug is caught
when its test fails by an assertion, which includes a wait that gave up and says what it waited for.
A test that only a time-out ends, or that crashes, has not caught it.
"""
import os
import pathlib
import subprocess
import sys
import time

import check_mutations

ROOT = check_mutations.ROOT
TREE = ROOT / "build/mutations/tree"
BUILD = TREE / "build/dev"
PATIENCE = 20  # Seconds; of each wait. A test as a whole has twice as much.
LIMIT = 3 * PATIENCE  # Nothing is left but to kill it.


def write(path, data):
    """Only where it differs: what is as it was is not built again."""
    if path.is_file() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def copy_sources():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout
    wanted = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    for path in list(TREE.rglob("*")):
        if path.is_file() and BUILD.parent not in path.parents and \
                str(path.relative_to(TREE)) not in wanted:
            path.unlink()
    for name in wanted:
        write(TREE / name, (ROOT / name).read_bytes())
        (TREE / name).chmod((ROOT / name).stat().st_mode)


def quietly(command):
    done = subprocess.run(command, cwd=TREE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    return done.returncode, done.stdout


def build(program):
    jobs = os.environ.get("JOBS", str(os.cpu_count()))
    return quietly(["cmake", "--build", str(BUILD), "-j", jobs, "--target", program])


def run(mutation):
    """(exit status or None for a time-out, output)."""
    environment = {**os.environ, "TENURE_TEST_PATIENCE": str(PATIENCE), **mutation.environment}
    try:
        done = subprocess.run(
            [BUILD / "tests" / mutation.program, f"--gtest_filter={mutation.test}",
             "--gtest_fail_fast"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=BUILD,
            env=environment, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired as expired:
        return None, (expired.stdout or b"").decode(errors="replace")
    return done.returncode, done.stdout.decode(errors="replace")


def verdict(status, output):
    if status == 0:
        return "NOT: the test passes" if "[  PASSED  ] 1 test" in output else "NOT: no such test"
    if "Failure\n" in output:
        return "caught"
    if status is None:
        return f"NOT: only a time-out of {LIMIT} s ended it"
    return f"NOT: ended with status {status} and no assertion"


def plant(mutation):
    """Returns (verdict, output)."""
    def read(name):
        return (TREE / name).read_text(encoding="utf-8")

    changed = check_mutations.applied(mutation, read)
    originals = {name: read(name) for name in changed}
    try:
        for name, text in changed.items():
            write(TREE / name, text.encode())
        status, output = build(mutation.program)
        if status != 0:
            return "NOT: it does not compile", output
        status, output = run(mutation)
        return verdict(status, output), output
    finally:
        for name, text in originals.items():
            write(TREE / name, text.encode())


def prepare(mutations):
    """Without a bug, every test passes."""
    copy_sources()
    for command in (["cmake", "--preset", "dev", "-DTENURE_TESTS=ON"],):
        status, output = quietly(command)
        if status != 0:
            sys.exit(output)
    for program in sorted({mutation.program for mutation in mutations}):
        print(f"building {program}", flush=True)
        status, output = build(program)
        if status != 0:
            sys.exit(output)
    for mutation in {mutation.test: mutation for mutation in mutations}.values():
        status, output = run(mutation)
        if verdict(status, output) != "NOT: the test passes":
            sys.exit(f"{mutation.test} must pass without a bug; status {status}\n{output}")


def main():
    mutations = check_mutations.load()
    names = sys.argv[1:]
    unknown = set(names) - {mutation.name for mutation in mutations}
    if unknown:
        sys.exit(f"no such mutation: {', '.join(sorted(unknown))}; see tests/mutations")
    mutations = [mutation for mutation in mutations if not names or mutation.name in names]
    prepare(mutations)
    width = max(len(mutation.name) for mutation in mutations)
    missed = 0
    for mutation in mutations:
        begin = time.monotonic()
        said, output = plant(mutation)
        took = time.monotonic() - begin
        print(f"{mutation.name:{width}}  {took:5.0f} s  {said:8}  {mutation.test}", flush=True)
        if said != "caught":
            missed += 1
            print(output[-3000:])
    print(f"{len(mutations) - missed} of {len(mutations)} caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

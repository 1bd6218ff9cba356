"""What the tests of `tenure pipeline` share."""


class Pipeline:
    """A manifest in a directory of its own, and its state beside it."""

    def __init__(self, space, text):
        self.space = space
        self.directory = space.directory
        self.file = space.file("pipeline.toml")
        self.file.write_text(text, encoding="utf-8")
        self.environment = {"XDG_STATE_HOME": str(space.file("state")),
                            "HERE": str(space.directory)}

    def start(self, action, *options):
        return self.space.start("pipeline", action, self.file, *options,
                                environment=self.environment)

    def run(self, action, *options, status=0):
        process = self.start(action, *options)
        process.out, process.err = process.communicate()
        assert process.returncode == status, (process.returncode, process.out, process.err)
        return process

    def text(self, name):
        path = self.directory / name
        return path.read_text(encoding="utf-8") if path.exists() else ""

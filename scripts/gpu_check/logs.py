"""The whole output of steps that did not pass, beside the result.

A machine with a GPU may be lent once only, and few files may come back from it.
"""

# Each has a file where it does not pass, and so do some of the others.
FIRST = {"parity", "memcheck", "racecheck"}
MOST_OTHERS = 2


class Logs:
    def __init__(self, folder, steps):
        """Takes away those of an earlier run."""
        self.folder, self.others = folder, 0
        for step in steps:
            (folder / name(step)).unlink(missing_ok=True)

    def keep(self, step, output):
        """The file's name, or None where there are enough."""
        if step not in FIRST:
            if self.others == MOST_OTHERS:
                return None
            self.others += 1
        (self.folder / name(step)).write_text(output)
        return name(step)


def name(step):
    return f"{step.replace(' ', '-')}.log"

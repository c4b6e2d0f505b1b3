"""Steps one after another, each within its limit and all within one budget; a failed one does not end the rest."""
import subprocess
import time


class Steps:
    def __init__(self, budget_s, only):
        self.end = time.monotonic() + budget_s
        self.only = only
        self.results = {}

    def run(self, name, limit_s, step):
        if self.only and name not in self.only:
            return
        left = self.end - time.monotonic()
        begun = time.monotonic()
        if left < 5:
            self.keep(name, begun, {"skipped": "the nine minutes were over"}, None)
            return
        try:
            self.keep(name, begun, step(min(limit_s, left)), True)
        except (AssertionError, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            self.keep(name, begun, {"failed": f"{type(error).__name__}: {error}"[:3000]}, False)

    def keep(self, name, begun, result, passed):
        seconds = round(time.monotonic() - begun, 1)
        skipped = passed is None or "skipped" in result
        self.results[name] = {"passed": None if skipped else passed, "seconds": seconds, **result}
        word = {True: "passed", False: "FAILED", None: "skipped"}[self.results[name]["passed"]]
        print(f"{name}: {word}, {seconds} s", flush=True)

    def passed(self):
        """Nothing failed, and something was checked."""
        marks = [result["passed"] for result in self.results.values()]
        return False not in marks and True in marks

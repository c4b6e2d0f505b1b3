"""Steps one after another, within one budget; a failed one does not end the rest."""
import dataclasses
import time
import typing


@dataclasses.dataclass
class Step:
    name: str
    share_s: float
    # Takes its limit in seconds; gives what it measured, with `skipped` or `unfinished` where that is not all.
    work: typing.Callable


class Steps:
    """What a step leaves of its share the later ones may use; what is theirs it cannot take."""

    def __init__(self, plan, budget_s, keep):
        self.plan, self.budget_s, self.keep = plan, budget_s, keep
        self.results = {step.name: {"passed": None, "skipped": "not reached"} for step in plan}

    def run(self):
        end = time.monotonic() + self.budget_s
        for at, step in enumerate(self.plan):
            begun = time.monotonic()
            limit = end - begun - sum(later.share_s for later in self.plan[at + 1 :])
            result = attempt(step, limit)
            result["seconds"] = round(time.monotonic() - begun, 1)
            self.results[step.name] = result
            print(f"{step.name}: {word(result)}, {result['seconds']} s", flush=True)
            self.keep()

    def failed(self):
        return [name for name, result in self.results.items() if result["passed"] is False]

    def open(self):
        """Steps that did not see all they should, with the reason."""
        return [f"{name} ({reason(result)})" for name, result in self.results.items() if result["passed"] is None]

    def outcome(self):
        parts = [("failed", self.failed()), ("incomplete", self.open())]
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names) or "passed"


def attempt(step, limit_s):
    if limit_s < 5:
        return {"passed": None, "skipped": "the nine minutes were over"}
    try:
        result = step.work(limit_s)
    except Exception as error:  # whatever it is, the other steps go on
        return {"passed": False, "failed": f"{type(error).__name__}: {error}"[:3000]}
    return {"passed": None if reason(result) else True, **result}


def reason(result):
    return result.get("skipped") or result.get("unfinished")


def word(result):
    if result["passed"] is None:
        return "skipped" if "skipped" in result else "unfinished"
    return "passed" if result["passed"] else "FAILED"

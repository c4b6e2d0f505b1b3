"""Steps one after another, within one budget; a failed one does not end the rest."""
import dataclasses
import textwrap
import time
import typing

import processes

# Of what a failed step wrote: characters in the result, and lines that are printed.
MOST_TOLD, LAST_LINES = 3000, 20


@dataclasses.dataclass
class Step:
    name: str
    share_s: float
    # Takes its limit in seconds; gives what it measured, with `skipped` or `unfinished` where that is not all, and then
    # `output`, what a program wrote.
    work: typing.Callable


class Steps:
    """What a step leaves of its share the later ones may use; what is theirs it cannot take."""

    def __init__(self, plan, budget_s, logs, keep):
        self.plan, self.budget_s, self.logs, self.keep = plan, budget_s, logs, keep
        self.results = {step.name: {"passed": None, "skipped": "not reached"} for step in plan}

    def run(self):
        end = time.monotonic() + self.budget_s
        for at, step in enumerate(self.plan):
            begun = time.monotonic()
            limit = end - begun - sum(later.share_s for later in self.plan[at + 1 :])
            result = attempt(step, limit)
            result["seconds"] = round(time.monotonic() - begun, 1)
            output = result.pop("output", None)
            if output:
                result["log"] = self.logs.keep(step.name, output)
            self.results[step.name] = result
            print(f"{step.name}: {word(result)}, {result['seconds']} s{last_lines(result)}", flush=True)
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
    except processes.Failed as error:
        failed = short(f"{error}\n{error.output}", MOST_TOLD)
        return {"passed": False, "failed": failed, "output": error.output, **error.found}
    except Exception as error:  # whatever it is, the other steps go on
        return {"passed": False, "failed": short(f"{type(error).__name__}: {error}", MOST_TOLD)}
    return {"passed": None if reason(result) else True, **result}


def short(text, most):
    """The first line says what went wrong, the end how."""
    if len(text) <= most:
        return text
    first = text.partition("\n")[0][: most // 4]
    return f"{first}\n…{text[len(first) - most :]}"


def last_lines(result):
    lines = result.get("failed", "").splitlines()[-LAST_LINES:]
    return "\n" + textwrap.indent("\n".join(lines), "    ") if lines else ""


def reason(result):
    return result.get("skipped") or result.get("unfinished")


def word(result):
    if result["passed"] is None:
        return "skipped" if "skipped" in result else "unfinished"
    return "passed" if result["passed"] else "FAILED"

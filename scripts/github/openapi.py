#!/usr/bin/env python3
"""Writes tests/data/github-openapi.json: of GitHub's own description of its REST API the routes that the product
calls, and everything that they refer to.

In an empty folder: npm install @octokit/openapi@23.0.2, then run this there with the path of the file to write.
The description is GitHub's (github/rest-api-description), packed by the Octokit project; both are under the MIT
licence.
"""

import json
import sys
from pathlib import Path

SOURCE = Path("node_modules/@octokit/openapi/generated/api.github.com.json")
REPO = "/repos/{owner}/{repo}"
KEPT = {
    f"{REPO}/issues/{{issue_number}}/comments": ["get", "post"],
    f"{REPO}/issues/comments/{{comment_id}}": ["get", "patch", "delete"],
    f"{REPO}/issues/{{issue_number}}/events": ["get"],
    f"{REPO}/issues/{{issue_number}}/labels": ["get", "post", "put"],
    f"{REPO}/issues/{{issue_number}}/labels/{{name}}": ["delete"],
    f"{REPO}/pulls/{{pull_number}}/files": ["get"],
    f"{REPO}/pulls/{{pull_number}}": ["get"],
    f"{REPO}/check-runs": ["post"],
    f"{REPO}/check-runs/{{check_run_id}}": ["get", "patch"],
    f"{REPO}/commits/{{ref}}/check-runs": ["get"],
    f"{REPO}/statuses/{{sha}}": ["post"],
    f"{REPO}/actions/artifacts": ["get"],
    f"{REPO}/actions/runs/{{run_id}}/artifacts": ["get"],
    f"{REPO}/actions/artifacts/{{artifact_id}}/{{archive_format}}": ["get"],
    f"{REPO}/commits/{{commit_sha}}/pulls": ["get"],
    "/rate_limit": ["get"],
    f"{REPO}/collaborators/{{username}}/permission": ["get"],
    f"{REPO}/actions/workflows/{{workflow_id}}/dispatches": ["post"],
    f"{REPO}/dispatches": ["post"],
    f"{REPO}/actions/runs/{{run_id}}": ["get"],
    f"{REPO}/actions/runs/{{run_id}}/cancel": ["post"],
    f"{REPO}/actions/workflows/{{workflow_id}}/runs": ["get"],
    f"{REPO}/branches/{{branch}}": ["get"],
    f"{REPO}/commits/{{ref}}": ["get"],
    f"{REPO}/commits/{{ref}}/statuses": ["get"],
    f"{REPO}/compare/{{basehead}}": ["get"],
    "/user": ["get"],
}
LEFT_OUT = ("paths", "components", "webhooks", "x-webhooks", "tags")


def trim(whole):
    kept = {key: value for key, value in whole.items() if key not in LEFT_OUT}
    kept["paths"] = {
        path: {
            method: operation
            for method, operation in whole["paths"][path].items()
            if method in methods or method == "parameters"
        }
        for path, methods in KEPT.items()
    }
    components = {}

    def follow(node):
        if isinstance(node, list):
            for item in node:
                follow(item)
        if not isinstance(node, dict):
            return
        target = node.get("$ref")
        if isinstance(target, str) and target.startswith("#/components/"):
            kind, name = target.split("/", 3)[2:]
            if name not in components.setdefault(kind, {}):
                components[kind][name] = whole["components"][kind][name]
                follow(components[kind][name])
        for value in node.values():
            follow(value)

    follow(kept)
    kept["components"] = components
    return kept


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: openapi.py FILE")
    whole = json.loads(SOURCE.read_text())
    Path(sys.argv[1]).write_text(json.dumps(trim(whole), indent=0))


if __name__ == "__main__":
    main()

"""Checks the manifests of docs/scaling/ against Kubernetes' own schemas.

Input: cluster.yaml as it is; of runner-values.yaml the runner's pod, which the chart makes of its `template`;
controller-values.yaml is parsed alone, since the charts have no schema. Output: nothing, or what is wrong; exit 1 then.
Needs: python -m pip install kubernetes-validate==1.37.0
Command: python3 scripts/check_scaling.py
"""

import sys
from pathlib import Path

import kubernetes_validate
import yaml

VERSION = "1.37"
FOLDER = Path(__file__).resolve().parent.parent / "docs" / "scaling"


def load(name):
    return [document for document in yaml.safe_load_all((FOLDER / name).read_text()) if document]


def runner_pod():
    template = load("runner-values.yaml")[0]["template"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "runner", **template["metadata"]}, "spec": template["spec"]}


def main():
    load("controller-values.yaml")
    wrong = 0
    for manifest in [*load("cluster.yaml"), runner_pod()]:
        try:
            kubernetes_validate.validate(manifest, VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            print(f"{manifest['kind']} {manifest['metadata']['name']}: {error.message}")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())

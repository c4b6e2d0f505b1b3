#!/usr/bin/env python3
"""Bill of materials of a Cargo.lock, as CycloneDX 1.6 JSON on standard output: python3 scripts/sbom.py Cargo.lock"""
import json
import pathlib
import sys
import tomllib


def component(package: dict) -> dict:
    name, version = package["name"], package["version"]
    of = {
        "type": "library",
        "bom-ref": f"pkg:cargo/{name}@{version}",
        "name": name,
        "version": version,
        "purl": f"pkg:cargo/{name}@{version}",
    }
    if "checksum" in package:
        of["hashes"] = [{"alg": "SHA-256", "content": package["checksum"]}]
    return of


def main() -> int:
    packages = tomllib.loads(pathlib.Path(sys.argv[1]).read_text())["package"]
    # The workspace's own packages come from no registry.
    own = next(package for package in packages if package["name"] == "infergate")
    json.dump(
        {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {"component": component(own) | {"type": "application"}},
            "components": [component(package) for package in packages if "source" in package],
        },
        sys.stdout,
        indent=1,
    )
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())

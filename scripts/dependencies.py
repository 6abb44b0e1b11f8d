"""The packages that an installation brings, with their licences: `docs/licences.md`, and a list of
parts (SBOM) in CycloneDX's form.

`python -m scripts.dependencies` writes the page; with a FILE it writes the list there, which has
the versions of requirements.lock.
"""

import json
import re
import sys
import uuid
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "licences.md"
LOCK = ROOT / "requirements.lock"
ELSEWHERE = {
    "httpx2-jsfetch": "BSD-3-Clause",
    "pywin32": "PSF-2.0",
    "truststore": "MIT",
}
"""Licences of packages that only other systems install."""
NAMES = {
    "Apache Software License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "MIT License": "MIT",
    "BSD License": "BSD-3-Clause",
    "BSD": "BSD-3-Clause",
}
"""Names of licences in metadata -> their identifiers (SPDX)."""


class Package(NamedTuple):
    """A line of the lock, with its condition."""

    name: str
    version: str
    condition: str


def locked_packages(path: Path = LOCK) -> list[Package]:
    """The packages of a lock file."""
    found: list[Package] = []
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        match = re.match(r"([\w.-]+)==(\S+)\s*(?:;\s*(.*?))?\s*(?:--hash=\S+\s*)*$", line)
        if match:
            found.append(Package(match[1], match[2], match[3] or ""))
    return found


def licence_of(name: str) -> str:
    """The licence of a package, from its metadata. Raises SystemExit when that names none."""
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    try:
        found = distribution(name)
    except PackageNotFoundError:
        raise SystemExit(f"{name} is not installed: run make lint once.") from None
    text = found.metadata["License-Expression"] or _classified(found)
    text = text or (found.metadata["License"] or "").splitlines()[0]
    if not text:
        raise SystemExit(f"the metadata of {name} names no licence.")
    return NAMES.get(text, text)


def _classified(found: Distribution) -> str:
    kinds = [
        each.rpartition(" :: ")[2]
        for each in found.metadata.get_all("Classifier") or ()
        if each.startswith("License :: OSI Approved ::")
    ]
    return " OR ".join(NAMES.get(kind, kind) for kind in dict.fromkeys(kinds))


def licences_page() -> str:
    """The text of docs/licences.md."""
    rows = [
        f"| {each.name} | {licence_of(each.name)} | {each.condition and f'`{each.condition}`'} |\n"
        for each in locked_packages()
    ]
    return (
        "<!-- Written by `python -m scripts.dependencies`. -->\n\n# Licences\n\n"
        "The project is under Apache-2.0. `pip install alhena-agent` brings these packages; "
        "extras bring more.\n\n| package | licence | only where |\n|---|---|---|\n" + "".join(rows)
    )


def parts_list(version: str) -> dict[str, Any]:
    """The list of parts: CycloneDX 1.5 as plain values."""
    components: list[dict[str, Any]] = []
    for each in locked_packages():
        address = f"pkg:pypi/{each.name}@{each.version}"
        components.append(
            {
                "type": "library",
                "bom-ref": address,
                "name": each.name,
                "version": each.version,
                "purl": address,
                "licenses": [{"expression": licence_of(each.name)}],
            }
        )
    serial = uuid.uuid5(uuid.NAMESPACE_URL, f"alhena-agent@{version}")
    own = f"pkg:pypi/alhena-agent@{version}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "alhena-agent",
                "version": version,
                "purl": own,
                "licenses": [{"expression": "Apache-2.0"}],
            }
        },
        "components": components,
        "dependencies": [{"ref": own, "dependsOn": [each["bom-ref"] for each in components]}],
    }


def main() -> None:
    if len(sys.argv) == 1:
        PAGE.write_text(licences_page(), encoding="utf-8")
        return
    from alhena.version import __version__

    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(parts_list(__version__), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

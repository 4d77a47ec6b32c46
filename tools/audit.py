"""Known vulnerabilities of installed packages, by pip-audit: ``python tools/audit.py SITE-PACKAGES``.

Run it with a Python that has pip-audit. Its exit code is 1 if there are vulnerabilities, and 2 if the database of
advisories could not be asked: pip-audit itself would then report that it knows of none.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def verdict(packages: list[dict[str, Any]]) -> tuple[int, str]:
    """Exit code and message for what pip-audit says of each package."""
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    found = [
        f"{package['name']} {package['version']}: {flaw['id']}, mended in {', '.join(flaw['fix_versions']) or 'none'}"
        for package in packages
        for flaw in package.get("vulns", ())
    ]
    looked_up = len(packages) - len(unknown)
    if not looked_up:
        return 2, "NOT AUDITED: pypi.org's database of advisories could not be asked. Try again where it is reachable."
    lines = [*found, f"{len(found)} known vulnerabilities in {looked_up} packages."]
    if unknown:
        lines.append(f"Not in the database: {', '.join(sorted(unknown))}")
    return (1 if found else 0), "\n".join(lines)


def main() -> int:
    command = [sys.executable, "-m", "pip_audit", "--path", sys.argv[1], "--skip-editable"]
    done = subprocess.run([*command, "--progress-spinner", "off", "--format", "json"], capture_output=True, text=True)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        reason = (done.stderr.strip() or "pip-audit said nothing").splitlines()[-1]
        print(f"NOT AUDITED: {reason}", file=sys.stderr)
        return 2
    code, message = verdict(packages)
    print(message, file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(main())

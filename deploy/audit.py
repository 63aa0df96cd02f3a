"""Known vulnerabilities in the packages of lock files: `make audit`, which `make check` calls.

pip-audit asks OSV about them. Where OSV does not answer, or answers without knowing what it must know, there is no
audit, and one line says so: from such an answer nothing would follow. Otherwise the exit code is pip-audit's, which is
not 0 if it finds something.
"""

import json
import queue
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException

SERVICE = "https://api.osv.dev/v1/query"
PIP_AUDIT = (
    *(sys.executable, "-m", "pip_audit", "--vulnerability-service", "osv", "--progress-spinner", "off"),
    "--disable-pip",  # lock files name all packages: nothing is resolved or installed
)
_PATIENCE_S = 5.0
_KNOWN = {"package": {"name": "jinja2", "ecosystem": "PyPI"}, "version": "2.4.1"}  # CVE-2014-1402 and others


def audit(
    locks: Sequence[str], service: str = SERVICE, pip_audit: Sequence[str] = PIP_AUDIT, patience_s: float = _PATIENCE_S
) -> int:
    """The exit code: 0 also where nobody could be asked."""
    if problem := _problem(service, patience_s):
        print(f"audit skipped: {service} cannot be asked about known vulnerabilities ({problem})")
        return 0
    requirements = [part for lock in locks for part in ("--requirement", lock)]
    return subprocess.run([*pip_audit, *requirements], check=False).returncode


def _problem(service: str, patience_s: float) -> str:
    """Why the service cannot be asked; empty if it can. Looking up its name counts as well, which has no time limit."""
    answers: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=lambda: answers.put(_ask(service, patience_s)), daemon=True).start()
    try:
        return answers.get(timeout=patience_s)
    except queue.Empty:
        return f"no answer within {patience_s:g} s"


def _ask(service: str, patience_s: float) -> str:
    request = urllib.request.Request(service, json.dumps(_KNOWN).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=patience_s) as answer:
            found = json.load(answer)
    except (OSError, HTTPException, ValueError) as error:
        return str(error) or type(error).__name__
    return "" if isinstance(found, dict) and found.get("vulns") else "it does not know an old vulnerability of jinja2"


if __name__ == "__main__":
    sys.exit(audit(sys.argv[1:]))

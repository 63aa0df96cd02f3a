"""A certificate for localhost that signs itself, made by openssl."""

import subprocess
from pathlib import Path
from shutil import which

import pytest


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """The certificate and its key. Skips the test where there is no openssl."""
    if which("openssl") is None:
        pytest.skip("no openssl on this machine to make a certificate with")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-days", "2"),
            *("-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")),
        ],
        check=True,
        capture_output=True,
    )
    return folder / "certificate.pem", folder / "key.pem"

"""What several tests of the server need."""

from pathlib import Path

import pytest

from tls_certificate import make_certificate


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """For localhost, signed by itself."""
    return make_certificate(tmp_path_factory.mktemp("tls"))

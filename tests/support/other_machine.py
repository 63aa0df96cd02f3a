"""A stand-in for another machine: this one without its vector instructions, in a new process."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np


def hash_elsewhere(expression: str, cache: Path) -> str:
    """What `expression` of the modules of corpora gives where numpy and soxr compute plainly."""
    multiarray = np._core._multiarray_umath  # type: ignore[attr-defined]
    features = [name for name in multiarray.__cpu_dispatch__ if multiarray.__cpu_features__.get(name)]
    imports = (
        "from whispertide_lab.evaluation.corpora import degraded, nonspeech\nfrom whispertide_lab.speech import talks"
    )
    code = f"{imports}\nprint({expression})"
    plain = {"NPY_DISABLE_CPU_FEATURES": " ".join(features), "SOXR_USE_SIMD": "0", "WHISPERTIDE_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | plain, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()

import errno
import os
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants

from whispertide.checkpoint.download import download_tokenizer
from whispertide.checkpoint.names import HubModel
from whispertide.errors import DownloadError


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_cache_that_cannot_be_written_is_no_interrupted_download(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def denied(*_: Any, **__: Any) -> str:
        raise OSError(number, os.strerror(number), "/cache")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", denied)
    with pytest.raises(DownloadError, match=r"expected to write to .*Set HF_HOME"):
        download_tokenizer(HubModel("openai/whisper-base.en"))

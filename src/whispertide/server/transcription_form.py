"""The form of a transcription request: read without trusting it, and its fields of several texts and of numbers."""

from collections.abc import Mapping

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData
from starlette.formparsers import MultiPartParser
from starlette.requests import Request
from starlette.types import Receive

from whispertide.errors import OptionError
from whispertide.options import DecodeOptions
from whispertide.server.bodies import read_pieces
from whispertide.server.protocols import messages

LISTS = {"languages": "languages", "keyterms": "keyterms", "hotwords": "keyterms"}  # between commas, or repeated
_FIELDS, _FIELD = 32, 2**16  # how many fields a form may have next to the file, and the bytes of one


async def read_form(request: Request, receive: Receive) -> FormData:
    """Read the form of a request. Raises `ValueError` where it is none, or in another charset than UTF-8."""
    kind = request.headers.get("content-type", "")
    if not kind.lower().startswith("multipart/form-data"):
        raise ValueError(f"got content of the type {kind[:100]!r}")
    # As the parser below reads it, which takes the last of several; some codecs take hours.
    charset = parse_options_header(kind)[1].get(b"charset", b"utf-8").decode("latin-1")
    if charset.lower() not in ("utf-8", "utf8"):
        raise ValueError(f"got fields in {charset[:40]!r}. Send UTF-8")
    body = read_pieces(receive)
    parser = MultiPartParser(request.headers, body, max_files=1, max_fields=_FIELDS, max_part_size=_FIELD)
    return await parser.parse()


def read_lists(form: FormData) -> dict[str, tuple[str, ...]]:
    """Read the fields of several texts, which other servers have too: between commas, or a field for each."""
    found: dict[str, tuple[str, ...]] = dict.fromkeys(LISTS.values(), ())
    for name, setting in LISTS.items():
        given = [value for key in (name, f"{name}[]") for value in form.getlist(key) if isinstance(value, str)]
        found[setting] += tuple(part.strip() for value in given for part in value.split(",") if part.strip())
    return found


def read_temperatures(texts: Mapping[str, str]) -> tuple[float, ...]:
    """Parse the temperature. 0 or none mean Whisper's own: 0 first, higher if that fails."""
    value = messages.number(texts, "temperature") or 0.0
    if not 0 <= value <= 1:
        raise OptionError(f"expected a temperature between 0 and 1; got {value:g}")
    return (value,) if value else DecodeOptions().temperatures

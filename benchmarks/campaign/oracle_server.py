"""A server in a process of its own, whose model knows the words: `python -m campaign.oracle_server FOLDER [JOURNAL]`.

FOLDER/words.json has the words; FOLDER/journal is its journal, or JOURNAL, an address of NATS. Writes the port
to standard output once it listens.
"""

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

from campaign.model import AllKnowing
from served import limited
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.options import Address
from whispertide.server.serving import Server, assemble
from whispertide.types import Word


def main() -> None:
    """Serve until a signal comes."""
    folder = Path(sys.argv[1])
    words = tuple(Word(*each) for each in json.loads((folder / "words.json").read_text()))
    where = sys.argv[2] if len(sys.argv) > 2 else str(folder / "journal")
    options = replace(limited(), journal=where, drain_s=10.0)
    model = AllKnowing(words, round_s=0.002)
    hub, close = assemble({"nano.en": model}, get_recipe("whisper-streaming"), options)  # type: ignore[dict-item]
    server = Server(hub, Address(port=0), ready=lambda port: print(port, flush=True))
    asyncio.run(server.serve())
    close()


if __name__ == "__main__":
    main()

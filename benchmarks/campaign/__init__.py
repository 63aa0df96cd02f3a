"""The soak campaign, a file per kind of harm: `benchmarks/soak.py` runs it, lab/docs/soak.md has its figures.

lines        what a run of one seed found, as a line of JSON; what is there is not run again
difference   words that were said next to words that were confirmed
speaker      a client that comes back, whatever happens, and checks all that it is promised
life         a server from its start to its death, with a disk that can fail and be copied at any moment
model        the tests' models that know their words
scenario     what a kind of harm is; `kinds` lists them all
page         the lines as a page with a figure
"""

import sys
from pathlib import Path

# for its model that knows the words, and its client
sys.path.append(str(Path(__file__).parents[2] / "tests" / "support"))

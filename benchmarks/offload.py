"""What an offramp saves: `python benchmarks/offload.py [--corpus noisy:10] [--write docs/benchmarks/offload]`.

`whispertide.lab.evaluation.offloading` says what is measured. `--local` hears here, by pilots; `--remote` is the model
of the server. Source: pilot inference (arXiv 2311.17065), figures 4 and 6.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from rich.progress import track

import whispertide
from whispertide.lab.evaluation import plots
from whispertide.lab.evaluation.corpora import open_corpus
from whispertide.lab.evaluation.corpora.parts import Excerpt
from whispertide.lab.evaluation.drawing import Curve, Drawing
from whispertide.lab.evaluation.items.commands import area, sentences
from whispertide.lab.evaluation.items.offloading import LINKS, WRONG, Both, choice, choices, listen, mean_wait_s


def report(heard: Sequence[Both]) -> None:
    """Print the tables."""
    count = len(heard)
    print(f"{'chosen by':12} {'area':>6} {'sent':>6} {'saved %':>8} {'WER % then':>11}")
    for each in choices(heard):
        rate = each.errors[each.needed]
        print(f"{each.name:12} {each.area:6.2f} {each.needed:6d} {100 * each.saved:8.1f} {100 * rate:11.2f}")
    wrong = [each.local_errors > WRONG * each.words for each in heard]
    areas = (f"{name} {area([each.signals[name] for each in heard], wrong):.2f}" for name in heard[0].signals)
    print(f"area of those with more than 10 % of word errors here ({sum(wrong)}): {', '.join(areas)}, random 0.50")
    print(f"of {count}; none sent {100 * each.errors[0]:.2f}, all sent {100 * each.errors[-1]:.2f} % of word errors")
    scores = [each.signals["perplexity"] for each in heard]
    needed = choice("perplexity", heard, scores).needed
    print(f"mean wait, s: none sent, as many as perplexity needs ({needed}), all sent")
    for link in LINKS:
        waits = [mean_wait_s(heard, scores, sent, link) for sent in (0, needed, count)]
        print(f"{link[0]:5.2f} s, {link[1] / 1e6:4.1f} Mbit/s: " + ", ".join(f"{wait:.3f}" for wait in waits))


def picture(heard: Sequence[Both], title: str) -> Drawing:
    """Errors against the share that is sent."""
    shares = tuple(float(share) for share in np.linspace(0, 100, len(heard) + 1))
    curves = [Curve(each.name, shares, tuple(100 * rate for rate in each.errors)) for each in choices(heard)]
    return plots.over_time(curves, x_label="utterances sent, %", y_label="word errors, %", title=title, zero=False)


def main() -> None:
    """Hear, print, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--local", default="nano.en")
    parser.add_argument("--remote", default="models/micro-padded.en")
    parser.add_argument("--corpus", default="noisy:10")
    parser.add_argument("--excerpt", type=float, default=600.0, help="seconds of the corpus")
    parser.add_argument("--write", type=Path, help="where the picture and what was heard go: FILE.png, FILE.json ...")
    given = parser.parse_args()
    local, remote = whispertide.load(given.local, threads=1), whispertide.load(given.remote, threads=1)
    local.warm_up()
    remote.warm_up()
    said = list(sentences(Excerpt(open_corpus(given.corpus), given.excerpt).utterances()))
    heard = listen(local, remote, track(said, "hearing"))
    seconds, words = sum(each.seconds for each in heard), sum(each.words for each in heard)
    what = f"{Path(given.local).name} here, {Path(given.remote).name} there, {given.corpus}"
    print(f"{len(heard)} utterances with pilots, {seconds:.0f} s, {words} words; {what}")
    report(heard)
    if given.write:
        picture(heard, f"What offramps save: {what}").save(given.write)
        given.write.with_suffix(".json").write_text(json.dumps([asdict(each) for each in heard]) + "\n")


if __name__ == "__main__":
    main()

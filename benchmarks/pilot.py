"""How long somebody waits after the last word, with pilots and without: `python benchmarks/pilot.py`.

The utterances are sentences of the synthetic talks of 2 to 8 s, each cut out with a quarter of a second around it; the
end of the audio is the end of speech. Audio comes as it is spoken on a simulated clock. Computing occupies the one
worker for the processor time that it took (one thread), so other load on the machine does not count; `--wall` counts
wall time instead. With `--gate` there is silence after each, and the wait is from when the voice gate knows that speech
is over. Every way hears the same utterance before the next one is taken.

Prints, per way, the wait from the end of the audio to the final text, the word errors, how many times longer the wait
is without pilots, and what is computed in all per second of audio; then one JSON line. The interval of the difference
of word errors is a paired bootstrap over speakers. espeak-ng and flite must be installed.
"""

import argparse
import json
import statistics

import numpy as np

import whispertide
from whispertide.types import SAMPLE_RATE
from whispertide_lab.evaluation.bootstrap import paired_over
from whispertide_lab.evaluation.corpora import open_corpus
from whispertide_lab.evaluation.corpora.parts import Excerpt
from whispertide_lab.evaluation.items.commands import BASE, GATED, WAYS, Way, hear, sentences


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="nano.en")
    parser.add_argument("--corpus", default="talks")
    parser.add_argument("--excerpt", type=float, default=300.0, help="seconds of the corpus")
    parser.add_argument("--seed", type=int, default=0, help="which talks are made")
    parser.add_argument("--ways", help="those to measure; default: all")
    parser.add_argument("--gate", action="store_true", help="the voice gate finds the end of speech")
    parser.add_argument("--wall", action="store_true", help="wall time in place of processor time")
    given = parser.parse_args()
    model = whispertide.load(given.model, threads=1)
    model.warm_up()
    known = GATED if given.gate else WAYS
    asked = known if given.ways is None else [name.strip() for name in given.ways.split(",")]
    chosen = list(dict.fromkeys([BASE, *asked]))
    corpus = open_corpus(given.corpus, seed=given.seed, length_s=given.excerpt)
    every = list(sentences(Excerpt(corpus, given.excerpt).utterances()))
    speakers = [item.group for item in every]
    audio_s = sum(len(item.audio) for item in every) / SAMPLE_RATE
    ways = {name: Way() for name in chosen}
    for name in chosen:  # once without counting
        hear(model, every[0], known[name], given.wall, Way(), gated=given.gate)
    for sentence in every:
        for name in chosen:
            hear(model, sentence, known[name], given.wall, ways[name], gated=given.gate)
    base = ways[BASE]
    counted = "wall" if given.wall else "processor"
    print(
        f"{len(every)} sentences, {audio_s:.0f} s, {given.model}, {given.corpus} of seed {given.seed}, {counted} time"
    )
    heads = ("wait", "p90", "times less", "WER %", "difference, points", "cpu s/s", "PPL")
    print("{:24} {:>7} {:>7} {:>10} {:>6} {:>22} {:>8} {:>5}".format("way", *heads))
    rows = {}
    for name, way in ways.items():
        mean, p90 = statistics.mean(way.waits), float(np.percentile(way.waits, 90))
        found = paired_over(speakers, base.errors, way.errors)
        less = statistics.mean(base.waits) / mean
        wer = sum(errors for errors, _ in way.errors) / sum(words for _, words in way.errors)
        perplexity = statistics.mean(way.perplexities)
        apart = f"{100 * found.difference:+.2f} ({100 * found.low:+.2f}..{100 * found.high:+.2f})"
        print(
            f"{name:24} {mean:7.3f} {p90:7.3f} {less:10.2f} {100 * wer:6.2f} {apart:>22} {way.cpu_s / audio_s:8.3f}"
            f" {perplexity:5.2f}"
        )
        rows[name] = {
            "wait_mean_s": mean,
            "wait_p90_s": p90,
            "times_less": less,
            "wer": wer,
            "wer_difference": found.difference,
            "cpu_s_per_s": way.cpu_s / audio_s,
            "perplexity": perplexity,
        }
    print(json.dumps({"sentences": len(every), "audio_s": audio_s, "model": given.model, "ways": rows}))


if __name__ == "__main__":
    main()

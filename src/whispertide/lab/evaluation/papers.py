"""The published evaluations that can be repeated: every table and figure of each paper, and what makes it here.

What the papers say of each item, and whether that held here, is in `inventory`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from whispertide.errors import OptionError
from whispertide.lab.evaluation.paper import Item, Paper

_WHISPERFLOW = Paper(
    "whisperflow",
    "WhisperFlow: speech foundation models in real time (Wang, Xu, Lin; arXiv 2412.11272)",
    (
        Item(
            "table 1",
            "encoder GFLOP, WER and insertions by padding: 30 s, none, zeros, noise, hush word",
            ("framing=hush",),
            "padding.padding_table",
        ),
        Item(
            "table 2",
            "time of encoding, and of decoding with beams of 1 and 5, by device",
            ("executor=pipelined", "a GPU stage"),
            "whisperflow.stage_table",
            "the CPU, baseline recipe",
        ),
        Item(
            "table 4",
            "average beam, reduce ratio and latency for steps of 0.5, 0.75 and 1 s",
            ("search=pruned", "search=verified"),
            "whisperflow.beam_table",
        ),
        Item(
            "figure 7",
            "latency by model and executor, all as fast as they can be",
            ("recipe whisperflow", "executor=pipelined"),
            "whisperflow.model_figure",
        ),
        Item(
            "figure 8",
            "latency against WER over steps, with one worker and with two, offline WER as a line",
            ("recipe whisperflow", "S-Transformer"),
            "whisperflow.step_figure",
            "the baseline and the system",
        ),
        Item(
            "figure 9",
            "power over time; here its stand-in, processor use over time",
            ("recipe whisperflow", "a power meter"),
            "whisperflow.load_figure",
            "processor time",
        ),
        Item(
            "figure 10",
            "ablation: baseline, + hush word, + pruning, + our alignment, waiting, + pipelining",
            ("framing=hush", "search=pruned", "executor=pipelined"),
            "whisperflow.ablation_figure",
        ),
        Item(
            "figure 11",
            "WER and encoder GFLOP over the length of naive paddings, against the hush word",
            ("framing=hush",),
            "padding.padding_figure",
            corpora=("talks", "noisy"),
        ),
        Item(
            "figure 12",
            "latency by division of processor cores between stages",
            ("executor=pipelined", "a GPU"),
            "allocation.division_figure",
            "both stages on the processor",
        ),
    ),
)

_NPUSPER = Paper(
    "npusper",
    "NPUsper: Eliminating Redundant Computation for Real-Time Whisper on Mobile NPUs (arXiv 2607.01108)",
    (
        Item(
            "table 1",
            "power, energy per inference and per token, tokens per second, by system and device",
            ("recipe npusper", "an NPU", "a power meter"),
            "systems.work_table",
            "processor time",
        ),
        Item(
            "table 2",
            "component ablation: hallucination rate, backward-shift rate, undesired stops",
            ("recipe npusper", "policy=grounded"),
            "guard.guard_table",
            corpora=("noisy",),
        ),
        Item(
            "table 3",
            "widths of the two attention filters",
            ("recipe npusper", "policy=grounded"),
            "guard.filter_table",
            corpora=("noisy",),
        ),
        Item(
            "table 4",
            "the guard with other sizes of model, by decoder layer: hallucinations and stops",
            ("recipe npusper", "policy=grounded"),
            "guard.size_table",
            corpora=("noisy",),
        ),
        Item(
            "table 5",
            "word and character errors per sample, of the whole text and of what was reached, by system",
            ("recipe npusper",),
            "systems.errors_table",
            corpora=("talks", "rooms"),
        ),
        Item(
            "table 6",
            "all systems on processors alone: errors, latency, length of input, time of each stage",
            ("recipe npusper",),
            "systems.processor_table",
        ),
        Item(
            "table 7",
            "linear layers as convolutions of 1x1: time of encoding and decoding",
            ("an NPU",),
            "lowering.lowering_table",
            "the CPU provider",
        ),
        Item(
            "table 8",
            "steps per chunk: latency of words, graph runs, switches and positions computed per token",
            ("recipe npusper", "search=unrolled", "an NPU"),
            "chunks.chunk_table",
            "the CPU provider",
        ),
        Item(
            "figure 2",
            "hallucinations, word errors and encoding time by length of padding",
            ("framing=zeros",),
            "lengths.length_figure",
            corpora=("noisy",),
        ),
        Item(
            "figure 3",
            "NPU against GPU: time and power; what starting graphs costs",
            ("an NPU", "a GPU", "a power meter"),
            "static_decoding.dispatch_table",
            "what starting graphs costs on the CPU provider",
        ),
        Item(
            "figure 5",
            "attention of chosen tokens over time, by decoder layer",
            (),
            "attention.layer_figure",
        ),
        Item(
            "figure 7",
            "latency of words and word errors, by system and device",
            ("recipe npusper", "an NPU"),
            "systems.word_figure",
            "the processor",
        ),
        Item(
            "figure 8",
            "time of each stage of an inference, and of the first text, by system",
            ("recipe npusper", "an NPU"),
            "systems.stage_figure",
            "the processor",
        ),
        Item(
            "figure 9",
            "decoding with a fixed full-length cache, with per-step graphs, and unrolled",
            ("search=unrolled", "an NPU"),
            "static_decoding.static_figure",
            "the CPU provider",
        ),
        Item(
            "figure 10",
            "what becomes of the clips under each variant of the guard; its precision and recall",
            ("recipe npusper", "policy=grounded"),
            "guard.outcome_figure",
            corpora=("noisy",),
        ),
        Item(
            "figure 11",
            "power over time, by system",
            ("recipe npusper", "a power meter"),
            "systems.load_figure",
            "processor time",
        ),
        Item(
            "figure 12",
            "figure 9 on a second device",
            ("search=unrolled", "an NPU"),
            "static_decoding.static_figure",
            "the CPU provider of the machine at hand",
        ),
        Item(
            "figure 13",
            "figure 9 by number of tokens",
            ("search=unrolled", "an NPU"),
            "static_decoding.length_figure",
            "the CPU provider",
        ),
        Item(
            "figure 14",
            "the likeliest tokens with padded frames hidden from the decoder, and without",
            ("framing=buckets",),
            "attention.masking_figure",
        ),
    ),
)

_WHISPERKIT = Paper(
    "whisperkit",
    "WhisperKit: On-device Real-time ASR with Billion-Scale Transformers (Durmus et al.; arXiv 2507.10860)",
    (
        Item(
            "table 1",
            "encoder work and word errors by mask, next to 30 s of padding and to windows without padding",
            ("recipe whisperkit", "framing=masked"),
            "whisperkit_masks.mask_table",
            corpora=("talks", "rooms"),
        ),
        Item(
            "table 2",
            "size and word errors as fp16, int8, blocks of 4 bits and palettes, with and without the mask d750",
            ("recipe whisperkit", "framing=masked"),
            "whisperkit_compression.compression_item",
        ),
        Item(
            "figure 4",
            "word errors with and without the mask d750, by corpus where the paper has languages",
            ("recipe whisperkit", "framing=masked", "more languages than English"),
            "whisperkit_masks.corpus_figure",
            "by corpus",
        ),
        Item(
            "figure 6",
            "how late a word is first seen: cursor latency of OpenBench, and ours, by system",
            ("recipe whisperkit",),
            "whisperkit.hypothesis_figure",
        ),
        Item(
            "figure 7",
            "how late a word is confirmed: cursor latency of OpenBench, and ours, by system",
            ("recipe whisperkit",),
            "whisperkit.confirmed_figure",
        ),
        Item(
            "figure 8",
            "word errors of the confirmed text and corrections of the hypothesis, by system",
            ("recipe whisperkit",),
            "whisperkit.accuracy_figure",
        ),
    ),
)

_WHISPERRT = Paper(
    "whisperrt",
    "WhisperRT: Turning Whisper into a Causal Streaming Model (Krichli, Raj, Keshet; arXiv 2508.12301)",
    (
        Item(
            "figure 3",
            "what is expected as the third token while a sentence is heard: Whisper, and the causal model",
            ("recipe whisperrt", "framing=blocks"),
            "token_distributions.distribution_figure",
        ),
        Item(
            "figure 4",
            "errors at every chunk (ARWER, and our RWER) by chunk size, next to the other recipes",
            ("recipe whisperrt", "framing=blocks"),
            "whisperrt.chunk_figure",
            corpora=("talks", "rooms"),
            usual_s=60.0,  # up to ten rounds for each second of it, many of them of 30 s
        ),
        Item(
            "figure 5",
            "errors at every chunk by beam, for chunks of 300 ms",
            ("recipe whisperrt", "framing=blocks"),
            "whisperrt.beam_figure",
        ),
        Item(
            "complexity",
            "encoder GFLOP and decoder runs per second of audio, by how much audio a round hears",
            ("recipe whisperrt", "framing=blocks"),
            "whisperrt.cost_figure",
        ),
    ),
)

_NETWORK = "network late"  # the paper's own
_PILOT = Paper(
    "pilot",
    "Efficient Deep Speech Understanding at the Edge (Wang, Lin; arXiv 2311.17065)",
    (
        Item(
            "table 3",
            "work of the encoder while audio comes in and after it, delay and errors, by model",
            (_NETWORK, "network conformer", "network branchformer", "network rnnt", "the delay of CNN and RNN-T"),
            "training.latecontext.encoder_table.encoding_table",
            "errors and delays of networks among the models",
            extra="train",
        ),
        Item(
            "table 4",
            "delay with and without pilots, by how often they run",
            ("recipe pilot", _NETWORK, "a server where Whisper is the first model"),
            "training.latecontext.pilot_items.frequency_table",
            "with a network of the paper's kind first, all of it",
        ),
        Item(
            "table 5",
            "delay and share of inputs sent away for the same errors, by what decides",
            ("executor=hybrid", _NETWORK, "CNN and BiLSTM where `train offramp` did not train them"),
            "training.latecontext.pilot_items.sending_table",
            "perplexity, entropy and chance",
        ),
        Item(
            "figure 4",
            "errors against delay, on the device alone and with a cloud",
            ("executor=hybrid", _NETWORK, "intents and other networks where there are none among the models"),
            "training.latecontext.pilot_items.trade_off_figure",
            "with networks of the paper's kinds and a server, all of it",
        ),
        Item(
            "figure 5",
            "ablation of pilot decoding",
            ("recipe pilot", _NETWORK, "a Branchformer where there is none among the models"),
            "training.latecontext.pilot_items.ablation_figure",
            "with a Branchformer among the models, all of it",
        ),
        Item(
            "figure 6",
            "which inputs are sent away",
            ("executor=hybrid", _NETWORK),
            "training.latecontext.pilot_items.selection_figure",
        ),
    ),
)

PAPERS: Mapping[str, Paper] = MappingProxyType(
    {paper.name: paper for paper in (_WHISPERFLOW, _NPUSPER, _WHISPERKIT, _WHISPERRT, _PILOT)}
)


ALL = "all"


def get_paper(name: str) -> Paper:
    """The paper of that name. Raises `OptionError`, which lists those there are."""
    if name not in PAPERS:
        raise OptionError(f"expected a paper among {', '.join(PAPERS)}, or {ALL}; got {name!r}")
    return PAPERS[name]


def choose(name: str, ids: Sequence[str]) -> tuple[Paper, ...]:
    """One paper, with some of its items or, without `ids`, all; or all papers. Raises `OptionError`."""
    if name != ALL:
        return (only(get_paper(name), ids) if ids else get_paper(name),)
    if ids:
        raise OptionError(f"expected the paper that has {', '.join(ids)}; got all of them: name one")
    return tuple(PAPERS.values())


def only(paper: Paper, ids: Sequence[str]) -> Paper:
    """The paper with these items alone, in its own order. Raises `OptionError`, which lists those there are."""
    known = [item.id for item in paper.items]
    if unknown := [id for id in ids if id not in known]:
        raise OptionError(f"expected items of {paper.name} among {', '.join(known)}; got {', '.join(unknown)}")
    return replace(paper, items=tuple(item for item in paper.items if item.id in ids))

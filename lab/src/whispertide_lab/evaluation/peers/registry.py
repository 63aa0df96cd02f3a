"""The peers: what each is, where it lives, what can be set, and why some cannot run at all.

A table; nothing is started here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from whispertide.errors import OptionError
from whispertide_lab.evaluation.peers.wire import Setting
from whispertide_lab.evaluation.trace import ClockName

DEFAULT_THREADS = 2
_COMMON: dict[str, Setting] = {"threads": DEFAULT_THREADS, "language": "en"}
_GATED: dict[str, Setting] = {**_COMMON, "vad": True}


@dataclass(frozen=True, slots=True)
class Peer:
    """Another program that can be measured next to ours.

    environment  its folder under .venv-peers, and the name of its requirements file; empty if it can never run
    program      module of this package that runs inside that environment
    conversion   the format that it reads a checkpoint in: ct2, ggml or openai; empty if it has weights of its own, so
                 that it is not compared with ours offline, or can never run
    fixed        settings that make it this peer and no other
    defaults     settings that a benchmark may change; their defaults are the program's own, but for `threads`:
                 beams (0 is greedy), fallback (sampling where decoding looks bad), step_s (least new audio of a round),
                 vad (the voice gate in front of it, as with our recipes),
                 trim_s (how long the window grows), frame_threshold (AlignAtt's),
                 clock ("simulated", "processor" or "free"),
                 compute_type and isa (CTranslate2's arithmetic, and instruction set such as AVX512, which it uses only
                 when told)
    variants     changes of the defaults that are measured next to them. Fallback off: a checkpoint of which some
    vocabulary
                 was never trained says anything at all where fallback samples at high temperature
    reason       why it can never run; empty if it can
    """

    name: str
    about: str
    environment: str = ""
    program: str = ""
    clock: ClockName = "simulated"
    streaming: bool = False
    conversion: str = ""
    fixed: Mapping[str, Setting] = field(default_factory=dict)
    defaults: Mapping[str, Setting] = field(default_factory=dict)
    variants: tuple[Mapping[str, Setting], ...] = ()
    reason: str = ""

    def settings(self, changes: Mapping[str, Setting]) -> dict[str, Setting]:
        """All settings, with `changes`. Raises `OptionError` for one that this peer does not have."""
        unknown = sorted(set(changes) - set(self.defaults))
        if unknown:
            raise OptionError(
                f"{self.name} has no setting {', '.join(unknown)}; it has {', '.join(sorted(self.defaults)) or 'none'}"
            )
        read = {name: _read(name, value, self.defaults[name]) for name, value in changes.items()}
        return {**self.defaults, **read, **self.fixed}


def _read(name: str, value: Setting, like: Setting) -> Setting:
    """A value in the type of its default; from a command line it comes as text."""
    if not isinstance(value, str) or isinstance(like, str):
        return value
    try:
        return {"true": True, "false": False}[value.lower()] if isinstance(like, bool) else type(like)(value)
    except (KeyError, ValueError):
        raise OptionError(f"expected {name} to be like {like!r}; got {value!r}") from None


_LOCAL_AGREEMENT: dict[str, Setting] = {"policy": "localagreement"}
_ALIGN_ATT: dict[str, Setting] = {"policy": "simulstreaming"}
_LOCAL_AGREEMENT_DEFAULTS: dict[str, Setting] = {**_GATED, "trim_s": 15.0, "fallback": True, "isa": ""}
_ALIGN_ATT_DEFAULTS: dict[str, Setting] = {**_GATED, "beams": 1, "frame_threshold": 25, "isa": ""}

_SURE: dict[str, Setting] = {"fallback": False}

_ALL = (
    Peer(
        "faster-whisper",
        "faster-whisper, offline (beam 5)",
        "faster-whisper",
        "run_offline",
        conversion="ct2",
        defaults={**_COMMON, "beams": 5, "fallback": True, "compute_type": "default", "isa": ""},
        variants=(_SURE, {**_SURE, "compute_type": "int8"}),
    ),
    Peer(
        "openai-whisper",
        "openai-whisper, offline (greedy)",
        "openai-whisper",
        "run_offline",
        conversion="openai",
        defaults={**_COMMON, "beams": 0, "fallback": True},
        variants=(_SURE,),
    ),
    Peer(
        "whisper.cpp",
        "whisper.cpp through pywhispercpp, offline (greedy, float16)",
        "whispercpp",
        "run_offline",
        conversion="ggml",
        defaults={**_COMMON, "beams": 0, "fallback": True},
        variants=(_SURE,),
    ),
    Peer(
        "whisper-streaming",
        "whisper_streaming's algorithm and voice gate over faster-whisper: WhisperLiveKit's LocalAgreement, no server",
        "whisperlivekit",
        "run_livekit_stepped",
        streaming=True,
        conversion="ct2",
        fixed=_LOCAL_AGREEMENT,
        defaults={
            **_COMMON,
            **_GATED,
            "step_s": 1.0,
            "trim_s": 15.0,
            "fallback": True,
            "clock": "simulated",
            "isa": "",
        },
        variants=(_SURE,),
    ),
    Peer(
        "simulstreaming",
        "SimulStreaming's algorithm (AlignAtt) and voice gate: WhisperLiveKit's, without its server",
        "whisperlivekit",
        "run_livekit_stepped",
        streaming=True,
        conversion="ct2",
        fixed=_ALIGN_ATT,
        defaults={**_ALIGN_ATT_DEFAULTS, "step_s": 0.1, "clock": "simulated"},
    ),
    Peer(
        "whisperlivekit-localagreement",
        "WhisperLiveKit, whole, with LocalAgreement",
        "whisperlivekit",
        "run_livekit_live",
        clock="live",
        streaming=True,
        conversion="ct2",
        fixed=_LOCAL_AGREEMENT,
        defaults={**_LOCAL_AGREEMENT_DEFAULTS, "step_s": 0.0},
        variants=(_SURE,),
    ),
    Peer(
        "whisperlivekit-simulstreaming",
        "WhisperLiveKit, whole, with SimulStreaming",
        "whisperlivekit",
        "run_livekit_live",
        clock="live",
        streaming=True,
        conversion="ct2",
        fixed=_ALIGN_ATT,
        defaults={**_ALIGN_ATT_DEFAULTS, "step_s": 0.0},
    ),
    Peer(
        "whisper.cpp-stream",
        "whisper.cpp's example `stream`",
        streaming=True,
        reason=(
            "whisper.cpp's `stream` is a C++ program that the wheel does not ship. pywhispercpp has "
            "examples/livestream.py instead. It transcribes each second by itself while playing it on a sound device"
        ),
    ),
    Peer(
        "whisper-streaming-pypi",
        "the package whisper-streaming 0.1.0",
        streaming=True,
        reason=(
            "the package is an unfinished rewrite by others. Trimming at sentences raises an error. The index that "
            "prompt and n-gram check depend on is never set. It trims by seconds. whisper_streaming itself is on no "
            "registry"
        ),
    ),
    Peer(
        "moonshine",
        "Moonshine's tiny-en, whole, with the weights that its wheel carries: it cannot load a Whisper",
        "moonshine",
        "run_moonshine",
        streaming=True,
        defaults={**_COMMON, "step_s": 0.5, "clock": "simulated"},
    ),
    Peer(
        "vosk",
        "Vosk",
        streaming=True,
        reason="its wheel has no model (one is fetched on first use). It cannot load a Whisper checkpoint",
    ),
)

PEERS: dict[str, Peer] = {peer.name: peer for peer in _ALL}


def get_peer(name: str) -> Peer:
    """The peer of this name. Raises `OptionError` for an unknown one."""
    if name not in PEERS:
        raise OptionError(f"expected one of the peers {', '.join(PEERS)}; got {name!r}")
    return PEERS[name]

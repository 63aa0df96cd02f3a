"""Whatever a client may send, for Hypothesis: bytes, text, JSON, and messages that are nearly right."""

import json
from dataclasses import fields
from typing import Any

from hypothesis import strategies as st

from whispertide.options import DecodeOptions
from whispertide.recipes.recipe import every_field
from whispertide.server.protocols.wyoming import Frame, encode

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
# What Python's JSON takes and nothing after it can use
strange = st.sampled_from(["\ud800", 10**400, -(10**20), float("nan"), float("inf"), [[[[]]]] * 3, "²", "x" * 5_000])
_names = [*every_field(), "schedule.step_s", *(item.name for item in fields(DecodeOptions))]
_changes = st.dictionaries(st.sampled_from(_names), json_values | strange, max_size=2)
_kinds = st.sampled_from(
    ["start", "resume", "ack", "flush", "clear", "configure", "finish", "abandon", "keepalive", "x"]
)
_fields = st.dictionaries(
    st.sampled_from(
        ["rate", "channels", "format", "session", "seq", "last_seq", "changes", "model", "language", "vad"]
    ),
    json_values | strange | _changes,
    max_size=3,
)
messages = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=50),
    st.builds(lambda kind, more: json.dumps({"type": kind, **more}), _kinds, _fields),
    (json_values | strange).map(json.dumps),
)

# Things that clients say, whole or with one value exchanged, and things that nobody says.
SAID: list[dict[str, Any]] = [
    {"type": "session.update", "session": {"audio": {"input": {"turn_detection": None, "format": "x"}}}},
    {"type": "input_audio_buffer.append", "audio": "AAAA"},
    {"type": "input_audio_buffer.commit"},
    {"type": "input_audio_buffer.clear"},
    {"type": "Finalize"},
    {"type": "CloseStream"},
    {"type": "Configure", "keyterms": ["a"], "features": {}},
    {"type": "Configure", "thresholds": {"eot_threshold": 0.8, "eot_timeout_ms": 900}, "language_hints": ["en"]},
    {"type": "ForceEndTurn"},
    {"type": "ForceEndpoint"},
    {"type": "UpdateConfiguration", "prompt": "a", "keyterms_prompt": ["b"], "language_codes": ["en"]},
    {"type": "Terminate"},
    {"uid": "u", "language": "en", "task": "transcribe", "send_last_n_segments": 3, "vad_parameters": {}},
]


@st.composite
def vendor_messages(draw: st.DrawFn) -> str | bytes:
    kind = draw(st.sampled_from(["said", "twisted", "json", "text", "bytes", "frame"]))
    if kind == "bytes":
        return draw(st.binary(max_size=300))
    if kind == "text":
        return draw(st.text(max_size=40))
    if kind == "json":
        return json.dumps(draw(json_values | strange))
    if kind == "frame":
        names = ["describe", "transcribe", "audio-start", "audio-chunk", "audio-stop", "ping"]
        keys = st.sampled_from(["rate", "width", "channels", "language", "transcript_names", "text"])
        data = draw(st.dictionaries(keys, st.one_of(json_values, st.sampled_from([1, 2, 16_000])), max_size=4))
        return encode(Frame(draw(st.sampled_from(names)), data, draw(st.binary(max_size=60))))
    message = dict(draw(st.sampled_from(SAID)))
    if kind == "twisted":
        message[draw(st.sampled_from(sorted(message)))] = draw(json_values | strange)
    return json.dumps(message)

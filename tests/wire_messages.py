"""Whatever a client may send, for Hypothesis: bytes, text, JSON, and messages that are nearly right."""

import json

from hypothesis import strategies as st

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
_kinds = st.sampled_from(
    ["start", "resume", "ack", "flush", "clear", "configure", "finish", "abandon", "keepalive", "x"]
)
_fields = st.dictionaries(
    st.sampled_from(
        ["rate", "channels", "format", "session", "seq", "last_seq", "changes", "model", "language", "vad"]
    ),
    json_values,
    max_size=3,
)
messages = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=50),
    st.builds(lambda kind, more: json.dumps({"type": kind, **more}), _kinds, _fields),
    json_values.map(json.dumps),
)

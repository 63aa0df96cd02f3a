"""Wire protocols, one module each. None of them does I/O: see `base`.

`ROUTES` has the WebSocket protocols of other services by the path that their clients use. WhisperLive's client knows no
path, so `/` is its own. The protocols over plain TCP have ports instead: see `server.tcp`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from whispertide.server.protocols.assemblyai import AssemblyAIProtocol
from whispertide.server.protocols.base import WireProtocol
from whispertide.server.protocols.deepgram import DeepgramProtocol
from whispertide.server.protocols.deepgram_flux import FluxProtocol
from whispertide.server.protocols.openai_realtime import OpenAIRealtimeProtocol
from whispertide.server.protocols.whisperlive import WhisperLiveProtocol
from whispertide.server.protocols.whisperlivekit import WhisperLiveKitProtocol

ROUTES: Mapping[str, type[WireProtocol]] = MappingProxyType(
    {
        "/v1/realtime": OpenAIRealtimeProtocol,
        "/v1/listen": DeepgramProtocol,
        "/v2/listen": FluxProtocol,
        "/v3/ws": AssemblyAIProtocol,
        "/asr": WhisperLiveKitProtocol,
        "/": WhisperLiveProtocol,
    }
)

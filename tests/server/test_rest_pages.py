"""Who may ask for what over HTTP: other pages, keys, origins and hosts."""

import asyncio
import json
from dataclasses import replace
from typing import Any

from rest_client import post, rest
from served import OfflineModel, keyed, limited, served, wav, web_client
from whispertide.server.options import Access


async def test_a_name_that_points_here_reads_nothing_without_a_key() -> None:
    """DNS rebinding: a page on a name of its own that resolves to this machine is of the same origin."""
    paths = ("/metrics", "/v1/models", "/v3/token?expires_in_seconds=60")
    async with rest() as client:
        for path in paths:
            answer = await client.get(path, headers={"host": "evil.example:8000"})
            assert answer.status_code == 403
            assert "evil.example" in answer.json()["error"]["message"]
            for host in ("127.0.0.1:8000", "[::1]:8000", "localhost", "whispertide:8000", "192.168.1.7"):
                assert (await client.get(path, headers={"host": host})).status_code == 200
    async with rest(keyed("a-secret-key")) as client:
        key = {"authorization": "Bearer a-secret-key", "host": "speech.example.org"}
        assert (await client.get("/v1/models", headers=key)).status_code == 200
    async with rest(replace(limited(), access=Access(origins=("https://speech.example.org",)))) as client:
        answer = await client.get("/v1/models", headers={"host": "speech.example.org"})
        assert answer.status_code == 200


async def test_a_page_of_an_allowed_origin_may_send_files() -> None:
    """A browser asks first (CORS), and shows the page only what the server names."""
    page, path = "https://speech.example.org", "/v1/audio/transcriptions"
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,x-api-key"}
    options = replace(limited(), access=Access(("a-secret-key",), origins=(f"{page}/",)))
    async with rest(options) as client:
        first = await client.options(path, headers={"origin": page, **asked})
        assert first.status_code == 200
        assert first.headers["access-control-allow-origin"] == page
        assert {"GET", "POST"} == set(first.headers["access-control-allow-methods"].split(", "))
        client.headers["origin"] = page
        for key, status in (("a-secret-key", 200), ("another-key", 401)):
            client.headers["authorization"] = f"Bearer {key}"
            answer = await post(client, wav(1))
            assert answer.status_code == status
            assert answer.headers["access-control-allow-origin"] == page
            assert answer.headers["access-control-expose-headers"] == "x-whispertide-model, x-whispertide-warning"
        other = await client.options(path, headers={"origin": "https://evil.example", **asked})
        assert other.status_code == 400
        assert "access-control-allow-origin" not in other.headers
    async with rest() as client:
        answer = await client.options(path, headers={"origin": page, **asked})
        assert "access-control-allow-origin" not in answer.headers


async def test_the_other_pages() -> None:
    async with rest() as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert (await client.get("/readyz")).json() == {"status": "ready"}
        metrics = await client.get("/metrics")
        assert "whispertide_sessions 0.0" in metrics.text
        description = (await client.get("/openapi.json")).json()
        assert description["openapi"].startswith("3.1")
        docs = await client.get("/docs")
        assert "/v1/audio/transcriptions" in docs.text
        assert "http" not in docs.text.replace("HTTP", "")  # nothing is fetched from elsewhere
        assert docs.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in docs.headers["content-security-policy"]
        for path in description["paths"]:
            method = "post" if "post" in description["paths"][path] else "get"
            assert (await client.request(method, path.replace("{model}", "nano.en"))).status_code in (200, 400)


async def test_pages_of_other_hosts_and_people_without_keys() -> None:
    async with rest() as client:
        evil = await client.post("/v1/audio/transcriptions", headers={"origin": "https://evil.example"})
        assert evil.status_code == 403
    async with rest(keyed("a-secret-key")) as client:
        for path in ("/v1/models", "/metrics"):
            assert (await client.get(path)).status_code == 401
        assert (await client.get("/healthz")).status_code == 200


async def test_too_many_requests() -> None:
    async with rest(limited(requests=3)) as client:
        codes = [(await client.get("/v1/models")).status_code for _ in range(5)]
        assert codes == [200, 200, 200, 429, 429]


async def test_keys_for_a_short_time() -> None:
    """What a page gets opens the realtime protocol with the settings it was made with, and nothing else."""
    from websockets.asyncio.client import connect

    async with served(keyed("a-secret-key"), OfflineModel()) as (server, _):
        address = f"http://127.0.0.1:{server.port}"
        headers = {"authorization": "Bearer a-secret-key"}
        async with web_client(server) as client:
            asked = {"session": {"type": "transcription", "audio": {"input": {"turn_detection": None}}}}
            url = "/v1/realtime/client_secrets"
            assert (await client.post(url, json=asked)).status_code == 401
            made = (await client.post(url, json=asked, headers=headers)).json()
            assert made["value"].startswith("ek_")
            old = (await client.post("/v1/realtime/transcription_sessions", json={}, headers=headers)).json()
            assert old["client_secret"]["value"].startswith("ek_")
            bad_bodies: list[Any] = [[], {"session": 1}, {"expires_after": {"seconds": 1e9}}]
            for bad in bad_bodies:
                assert (await client.post(url, json=bad, headers=headers)).status_code == 400
            models = await client.get("/v1/models", headers={"authorization": f"Bearer {made['value']}"})
            assert models.status_code == 401
        path = address.replace("http", "ws") + "/v1/realtime?intent=transcription"
        subprotocols: Any = ["realtime", f"openai-insecure-api-key.{made['value']}"]
        async with connect(path, subprotocols=subprotocols, proxy=None) as socket:
            async with asyncio.timeout(60):
                created, updated = [json.loads(await socket.recv()) for _ in range(2)]
            assert created["type"] == "session.created"
            assert updated["type"] == "session.updated"
            assert updated["session"]["audio"]["input"]["turn_detection"] is None

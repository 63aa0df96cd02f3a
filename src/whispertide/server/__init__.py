"""The server: many live sessions on one model, over HTTP, WebSocket and TCP. Only the commands that serve import it."""

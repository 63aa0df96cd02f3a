"""Hostile, hurried and careless clients, in processes of their own: `benchmarks/siege.py` lets them loose on a server.

assault   one of them under way: whom it concerns, how long it may go on, what came of it
wire      its sockets: bytes as no well-behaved client sends them
frames    what they send over WebSockets and TCP
sessions  what they ask of sessions: the most costly that is allowed
rubbish   what means nothing
requests  what they ask over HTTP
crowds    what they hold: connections, sessions, silent sockets
material  the recordings that they send: speech, and hours of silence in few bytes
kinds     all of them by name
party     their processes, as the siege has them
goals     what an honest session may not lose meanwhile
page      what was measured, as a page
__main__  the process: attacks when its standard input says so, and ends with it

No attack goes on for longer than it was told, and none goes to any address but loopback.
"""

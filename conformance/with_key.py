#!/usr/bin/env python3
"""conformance/with_key.py URL KEY: listens on a free port of this machine and passes every request on with the key.

The suite cannot send a key, and a modern client without one has no process of its own where `instances: per-session`.
"""
import asyncio
import sys
import urllib.parse

TARGET, KEY = urllib.parse.urlsplit(sys.argv[1]), sys.argv[2]


async def requests(reader, writer):
    """Passes requests on, one after the other, each with the key in its head."""
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(head[:-2] + b"Authorization: Bearer " + KEY.encode() + b"\r\n\r\n")
        lengths = [line.split(b":", 1)[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        writer.write(await reader.readexactly(int(lengths[0]) if lengths else 0))
        await writer.drain()


async def answers(reader, writer):
    while piece := await reader.read(1 << 16):
        writer.write(piece)
        await writer.drain()


async def serve(reader, writer):
    above, below = await asyncio.open_connection(TARGET.hostname, TARGET.port)
    both = [asyncio.ensure_future(requests(reader, below)), asyncio.ensure_future(answers(above, writer))]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    for task in both:
        task.cancel()
    await asyncio.gather(*both, return_exceptions=True)
    below.close()
    writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print("with_key: http://127.0.0.1:%d" % server.sockets[0].getsockname()[1], file=sys.stderr, flush=True)
    await server.serve_forever()


asyncio.run(main())

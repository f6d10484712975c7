"""What both Python clients share: a listener for the redirect, and a place for tokens.

The address to open in a browser is printed as {"open": ADDRESS}; how the call went as {"said": TEXT}.
"""

import http.server
import json
import threading
import urllib.parse

import anyio


class Redirect:
    """Waits for the browser at a loopback address."""

    def __init__(self):
        self.parameters, self.arrived = {}, threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<title>Signed in</title><h1>Signed in: this window may be closed</h1>")
                if "code" in query:
                    outer.parameters = {name: values[0] for name, values in query.items()}
                    outer.arrived.set()

            def log_message(self, *_):
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/callback"

    async def open(self, address):
        print(json.dumps({"open": address}), flush=True)

    async def wait(self):
        await anyio.to_thread.run_sync(self.arrived.wait)
        return self.parameters

    def metadata(self):
        return {
            "client_name": "tsugi sign-in test",
            "redirect_uris": [self.url],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }


class Storage:
    """Tokens and the registration, in memory."""

    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


def say(result):
    print(json.dumps({"said": result.content[0].text}), flush=True)

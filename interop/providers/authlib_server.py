"""An identity provider for tests made of PyPI's authlib and Flask, at http://127.0.0.1:PORT.

  authlib_server.py PORT KEY SECONDS

KEY is a private RSA key in PEM. Access tokens are JWTs (RFC 9068, RS256) for the resource that is asked for.
"""

import hashlib
import logging
import pathlib
import sys

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientMixin, grants
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from flask import Flask, request
from joserfc.jwk import RSAKey

port, key_file, seconds = sys.argv[1:4]
issuer = f"http://127.0.0.1:{port}"
pem = pathlib.Path(key_file).read_text()
kid = hashlib.sha256(pem.encode()).hexdigest()[:16]
key = RSAKey.import_key(pem, {"kid": kid, "use": "sig", "alg": "RS256"})
app = Flask(__name__)


class Robot(ClientMixin):
    def get_client_id(self):
        return "robot"

    def get_allowed_scope(self, scope):
        return scope

    def check_client_secret(self, secret):
        return secret == "robot-secret"

    def check_endpoint_auth_method(self, method, endpoint):
        return method == "client_secret_basic"

    def check_grant_type(self, grant_type):
        return grant_type == "client_credentials"


class Tokens(JWTBearerTokenGenerator):
    def get_jwks(self):
        return key

    def get_audiences(self, client, user, scope):
        return request.form["resource"]


server = AuthorizationServer()
server.init_app(app, query_client=lambda name: Robot() if name == "robot" else None, save_token=lambda *_: None)
server.register_token_generator("default", Tokens(issuer, "RS256", expires_generator=lambda *_: int(seconds)))
server.register_grant(grants.ClientCredentialsGrant)


@app.post("/token")
def token():
    return server.create_token_response()


@app.get("/.well-known/oauth-authorization-server")
def metadata():
    return {
        "issuer": issuer,
        "token_endpoint": f"{issuer}/token",
        "jwks_uri": f"{issuer}/keys",
        "response_types_supported": ["code"],
    }


@app.get("/keys")
def keys():
    return {"keys": [key.as_dict(private=False)]}


logging.getLogger("werkzeug").setLevel(logging.ERROR)
app.run("127.0.0.1", int(port), threaded=True)

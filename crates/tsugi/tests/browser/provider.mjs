// An OpenID provider for one person: it asks nothing but which account, and keeps the rules of the code flow.
import { createHash, generateKeyPairSync, randomUUID, sign } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { strict as assert } from "node:assert";

const encode = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** Runs a provider at a free port; `accounts` says which groups each account has. */
export async function startProvider(accounts) {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const codes = new Map();
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, provider.issuer);
    const give = (type, body, headers = {}) => response.writeHead(200, { "Content-Type": type, ...headers }).end(body);
    const json = (value) => give("application/json", JSON.stringify(value));
    if (url.pathname === "/.well-known/openid-configuration") {
      const at = (path) => `${provider.issuer}${path}`;
      return json({ issuer: provider.issuer, jwks_uri: at("/keys"), authorization_endpoint: at("/authorize"), token_endpoint: at("/token"), end_session_endpoint: at("/logout"), authorization_response_iss_parameter_supported: true });
    }
    if (url.pathname === "/keys") return json({ keys: [{ ...publicKey.export({ format: "jwk" }), kid: "k1", use: "sig" }] });
    if (url.pathname === "/authorize") {
      const links = Object.keys(accounts).map((name) => `<p><a href="/chosen${url.search}&account=${name}">${name}</a></p>`);
      return give("text/html", `<!doctype html><title>Provider</title><h1>Which account?</h1>${links.join("")}`);
    }
    if (url.pathname === "/chosen") {
      const asked = Object.fromEntries(url.searchParams);
      const code = randomUUID();
      codes.set(code, asked);
      const back = new URL(asked.redirect_uri);
      for (const [name, value] of [["code", code], ["state", asked.state], ["iss", provider.issuer]]) back.searchParams.set(name, value);
      return response.writeHead(302, { Location: back.href }).end();
    }
    if (url.pathname === "/token") {
      let body = "";
      for await (const part of request) body += part;
      const form = Object.fromEntries(new URLSearchParams(body));
      const asked = codes.get(form.code);
      codes.delete(form.code);
      const isRight = asked && createHash("sha256").update(form.code_verifier).digest("base64url") === asked.code_challenge && form.redirect_uri === asked.redirect_uri;
      if (!isRight) return response.writeHead(400, { "Content-Type": "application/json" }).end('{"error":"invalid_grant"}');
      const now = Math.floor(Date.now() / 1000);
      const claims = { iss: provider.issuer, aud: asked.client_id, sub: asked.account, iat: now, exp: now + 300, nonce: asked.nonce, groups: accounts[asked.account] };
      const message = `${encode({ alg: "ES256", kid: "k1" })}.${encode(claims)}`;
      const signature = sign("sha256", Buffer.from(message), { key: privateKey, dsaEncoding: "ieee-p1363" }).toString("base64url");
      return json({ access_token: "unused", token_type: "Bearer", id_token: `${message}.${signature}` });
    }
    if (url.pathname === "/logout") {
      assert.equal(url.searchParams.get("id_token_hint").split(".").length, 3);
      return give("text/html", `<!doctype html><title>Provider</title><h1>Signed out</h1><a href="${url.searchParams.get("post_logout_redirect_uri")}">Back</a>`);
    }
    response.writeHead(404, { "Content-Type": "text/plain" }).end("not here");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const provider = { issuer: `http://127.0.0.1:${server.address().port}`, stop: () => { server.closeAllConnections(); server.close(); } };
  return provider;
}

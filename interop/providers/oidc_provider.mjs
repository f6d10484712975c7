// The npm package oidc-provider as an identity provider for tests, at http://127.0.0.1:PORT.
//
//   node oidc_provider.mjs PORT KEY SECONDS
//
// KEY is a private EC key in PEM. Access tokens are JWTs for the resource that is asked for, and end after SECONDS.
// Clients may register themselves. People sign in and consent with a button; the name of the person is in the form.
import { createHash, createPrivateKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import Provider from "oidc-provider";

const [port, keyFile, seconds] = process.argv.slice(2);
const pem = readFileSync(keyFile, "utf8");
const jwk = createPrivateKey(pem).export({ format: "jwk" });
const kid = createHash("sha256").update(jwk.x + jwk.y).digest("hex").slice(0, 16);
const issuer = `http://127.0.0.1:${port}`;

const provider = new Provider(issuer, {
  jwks: { keys: [{ ...jwk, kid, use: "sig", alg: "ES256" }] },
  clients: [
    {
      client_id: "robot",
      client_secret: "robot-secret",
      grant_types: ["client_credentials"],
      response_types: [],
      redirect_uris: [],
    },
  ],
  clientDefaults: { id_token_signed_response_alg: "ES256" },
  scopes: ["openid", "offline_access", "mcp"],
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  cookies: { keys: [kid] },
  pkce: { required: () => true },
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => "https://nowhere.example",
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => ({
        scope: "mcp",
        audience: resource,
        accessTokenFormat: "jwt",
        accessTokenTTL: Number(seconds),
        jwt: { sign: { alg: "ES256" } },
      }),
    },
  },
});

async function consent(details, person) {
  const { prompt, params, session, grantId } = details;
  if (prompt.name === "login") return { login: { accountId: person } };
  const known = grantId ? await provider.Grant.find(grantId) : undefined;
  const grant = known ?? new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  if (prompt.details.missingOIDCScope) grant.addOIDCScope(prompt.details.missingOIDCScope.join(" "));
  for (const [resource, scopes] of Object.entries(prompt.details.missingResourceScopes ?? {})) {
    grant.addResourceScope(resource, scopes.join(" "));
  }
  return { consent: { grantId: await grant.save() } };
}

const escape = (text) => String(text).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

async function interact(request, response) {
  const details = await provider.interactionDetails(request, response);
  if (request.method === "POST") {
    request.resume();
    const result = await consent(details, "alice");
    return provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true });
  }
  const { prompt, params } = details;
  response.setHeader("Content-Type", "text/html");
  response.end(`<!doctype html><title>Sign in</title><h1>Test provider: ${escape(prompt.name)}</h1>
    <p>Client ${escape(params.client_id)} asks for <b>${escape(params.scope)}</b> at <b>${escape(params.resource)}</b>.</p>
    <form method="post"><button>Continue as alice</button></form>`);
}

const handle = provider.callback();
createServer((request, response) => {
  if (!request.url.startsWith("/interaction/")) return handle(request, response);
  interact(request, response).catch((error) => {
    response.statusCode = 500;
    response.end(String(error));
  });
}).listen(Number(port), "127.0.0.1", () => console.log("ready"));

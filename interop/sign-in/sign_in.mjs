// What both TypeScript clients share: a provider object as the SDKs want it, and a listener for the redirect.
//
// The address to open in a browser is printed as {"open": ADDRESS}; how the call went as {"said": TEXT}.
import { once } from "node:events";
import { createServer } from "node:http";

const listener = createServer().listen(0, "127.0.0.1");
await once(listener, "listening");
const redirectUrl = `http://127.0.0.1:${listener.address().port}/callback`;

/** The parameters of the redirect. */
const redirected = new Promise((resolve) => {
  listener.on("request", (request, response) => {
    response.setHeader("Content-Type", "text/html");
    response.end("<title>Signed in</title><h1>Signed in: this window may be closed</h1>");
    resolve(new URL(request.url, redirectUrl).searchParams);
  });
});

const kept = {};
/** What the SDKs call an OAuthClientProvider, in memory. */
export const authProvider = {
  redirectUrl,
  clientMetadata: {
    client_name: "tsugi sign-in test",
    redirect_uris: [redirectUrl],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
    application_type: "native",
  },
  state: () => (kept.state = crypto.randomUUID()),
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  redirectToAuthorization: (address) => console.log(JSON.stringify({ open: String(address) })),
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
  saveDiscoveryState: (state) => void (kept.discovery = state),
  discoveryState: () => kept.discovery,
};

/** Connects, which the gateway refuses, lets the person sign in, connects again and calls. */
export async function signInAndCall(makeClient, makeTransport, finish, call) {
  const transport = makeTransport();
  let refusal;
  await makeClient().connect(transport).catch((error) => (refusal = error));
  if (refusal?.name !== "UnauthorizedError" && refusal?.constructor?.name !== "UnauthorizedError") throw refusal;
  const parameters = await redirected;
  if (parameters.get("state") !== kept.state) throw new Error("another state");
  await finish(transport, parameters);
  const client = makeClient();
  await client.connect(makeTransport());
  const result = await call(client);
  console.log(JSON.stringify({ said: result.content[0].text }));
  await client.close();
  listener.close();
  listener.closeAllConnections();
}

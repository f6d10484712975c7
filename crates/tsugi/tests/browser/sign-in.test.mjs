// Signing in through a provider, in a real browser that keeps the rules of cookies.
import { strict as assert } from "node:assert";
import { after, before, test } from "node:test";
import { startProvider } from "./provider.mjs";
import { assertQuiet, closeBrowser, freePort, inspect, openBrowser, openWindow, withGateway } from "./world.mjs";

before(openBrowser);
after(closeBrowser);

test("through a provider: an administrator comes back to the wanted view, a stranger is told why not, and out is out", async () => {
  const provider = await startProvider({ mio: ["mcp-admins"], stranger: ["others"] });
  const listen = `127.0.0.1:${await freePort()}`;
  const config = `
servers:
  - name: demo
    builtin: demo
gateway:
  publicUrl: http://${listen}
  auth:
    issuers:
      - name: corp
        issuer: ${provider.issuer}
        insecureLoopback: true
        claims: { roles: /groups }
        roles: { mcp-admins: admin }
        signIn: { clientId: dashboard, label: "Example Corp" }
`;
  try {
    await withGateway(config, async (gateway) => {
      const page = await openWindow();
      await page.goto(`${gateway.url}/#/servers/demo`);
      const button = page.getByRole("link", { name: "Sign in with Example Corp" });
      await button.waitFor();
      await page.getByLabel("Key", { exact: true }).waitFor();
      await inspect(page, "sign-in-provider");
      await page.getByRole("button", { name: "日本語" }).click();
      await page.getByRole("link", { name: "Example Corp でサインイン" }).waitFor();
      await inspect(page, "sign-in-provider-ja");
      await page.getByRole("button", { name: "English" }).click();

      // An account without a role.
      await button.click();
      await page.getByRole("link", { name: "stranger" }).click();
      await page.getByText("Your account has no role at this gateway.").waitFor();
      await inspect(page, "sign-in-no-role");
      assert.deepEqual((await page.context().cookies()).map((one) => one.name), []);

      // The administrator, back to the view that was asked for.
      await page.goto(`${gateway.url}/#/servers/demo`);
      await button.click();
      await page.getByRole("link", { name: "mio" }).click();
      await page.getByRole("heading", { name: "demo" }).waitFor();
      assert.equal(new URL(page.url()).hash, "#/servers/demo");
      assert.equal(new URL(page.url()).search, "", "no code is left in the address");
      await page.getByText("mio · admin").waitFor();
      const cookies = await page.context().cookies();
      assert.deepEqual(cookies.map((one) => [one.name, one.httpOnly, one.sameSite]), [["tsugi_session", true, "Strict"]]);
      const forged = await page.context().request.post(`${gateway.url}/servers/demo/stop`, { headers: { origin: gateway.url } });
      assert.equal(forged.status(), 403);
      await page.reload();
      await page.getByText("mio · admin").waitFor();

      // A link on another page of the same site finds the session, too.
      await page.goto(`${provider.issuer}/logout?id_token_hint=a.b.c&post_logout_redirect_uri=${encodeURIComponent(gateway.url)}/`);
      await page.getByRole("link", { name: "Back" }).click();
      await page.getByText("mio · admin").waitFor();

      // Out here, and at the provider.
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByText("You are signed out here.").waitFor();
      assert.equal((await page.context().request.get(`${gateway.url}/api/overview`)).status(), 401);
      await inspect(page, "sign-in-out");
      await page.getByRole("link", { name: "Sign out at the provider, too" }).click();
      await page.getByRole("heading", { name: "Signed out" }).waitFor();
      await page.getByRole("link", { name: "Back" }).click();
      await button.waitFor();
      assertQuiet(page, /403|404/);
      await page.context().close();
    }, listen);
  } finally {
    provider.stop();
  }
});

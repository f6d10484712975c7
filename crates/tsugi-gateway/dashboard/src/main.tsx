/** Where the page begins. */

import { render } from "preact";
import { refreshSession } from "./lib/api";
import { followAddress } from "./lib/route";
import { followTheme } from "./lib/theme";
import { Page } from "./view/page";

followTheme();
followAddress();
const app = document.getElementById("app")!;

/** The frame in the document stands until it is known who looks at it, so that nothing flickers. */
function begin(fault: unknown): void {
  app.textContent = "";
  render(<Page fault={fault} />, app);
}

refreshSession().then(() => begin(null), begin);

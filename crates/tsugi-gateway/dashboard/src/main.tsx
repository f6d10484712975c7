/** Where the page begins. */

import { render } from "preact";
import { firstSession } from "./lib/api";
import { followAddress } from "./lib/route";
import { takeOverview } from "./lib/store";
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

firstSession().then(({ overview }) => { if (overview) takeOverview(overview); begin(null); }, begin);

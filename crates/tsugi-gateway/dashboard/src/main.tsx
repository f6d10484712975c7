/** Where the page begins. */

import { render } from "preact";
import { refreshSession } from "./lib/api";
import { followAddress } from "./lib/route";
import { followTheme } from "./lib/theme";
import { Page } from "./view/page";

followTheme();
followAddress();
// The question is on its way before the first frame is drawn.
const asked = refreshSession();
render(<Page asked={asked} />, document.getElementById("app")!);

document.getElementById("app").textContent="tsugi";

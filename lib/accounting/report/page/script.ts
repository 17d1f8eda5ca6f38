/**
 * The page's script: the month of the daily charts, and what is under the pointer. Without it the page is whole but for these.
 * Names are put in as text, never as markup.
 */
export const SCRIPT = `
"use strict";
(() => {
  const select = document.getElementById("month");
  const show = () => {
    for (const each of document.querySelectorAll("[data-month]")) each.hidden = each.dataset.month !== select.value;
  };
  if (select) {
    select.parentElement.hidden = false;
    select.addEventListener("change", show);
    show();
  }
  const names = [...document.querySelectorAll("#series .legend li")].map((each) => each.textContent);
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const write = (value, unit) =>
    value.toLocaleString("en", unit === "jobs" ? {} : { minimumFractionDigits: 1, maximumFractionDigits: 1 });
  const line = (color, name, value) => {
    const row = document.createElement("div");
    if (color) row.append(Object.assign(document.createElement("i"), { className: color }));
    row.append(name, Object.assign(document.createElement("b"), { textContent: value }));
    return row;
  };
  let on = null;
  const hide = () => {
    if (on) on.classList.remove("on");
    on = null;
    tip.hidden = true;
  };
  const meet = (event) => {
    const bar = event.target instanceof Element ? event.target.closest("svg g") : null;
    if (!bar) return hide();
    if (bar !== on) {
      hide();
      on = bar;
      bar.classList.add("on");
      const unit = bar.ownerSVGElement.dataset.unit;
      const parts = [...bar.querySelectorAll("[data-value]")];
      tip.replaceChildren(
        line("", bar.dataset.at, write(Number(bar.dataset.total), unit) + " " + unit),
        ...(names.length > 1 ? parts.reverse() : []).map((part) => {
          const series = part.getAttribute("class");
          return line(series, names[Number(series.slice(1))], write(Number(part.dataset.value), unit));
        }),
      );
      tip.hidden = false;
    }
    const { clientWidth } = document.documentElement;
    const left = Math.max(4, Math.min(event.clientX + 14, clientWidth - tip.offsetWidth - 4));
    tip.style.left = left + scrollX + "px";
    tip.style.top = Math.max(4, event.clientY - tip.offsetHeight - 12) + scrollY + "px";
  };
  document.addEventListener("pointermove", meet);
  document.addEventListener("pointerdown", meet);
})();
`;

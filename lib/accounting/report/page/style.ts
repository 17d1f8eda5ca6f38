/** The page's style: light and dark by the reader's setting, from 360 px on. The colours of series can be told apart in both. */
export const STYLE = `
:root{color-scheme:light dark;--page:#f6f6f3;--card:#fff;--ink:#15171a;--soft:#55595f;--line:#dcdcd6;--grid:#e7e7e2;--accent:#2a78d6;
--good:#0a7d3c;--warn:#9a5b00;--bad:#b3261e;--s0:#2a78d6;--s1:#eb6834;--s2:#1baf7a;--s3:#4a3aa7;--s4:#eda100;--s5:#e87ba4;--s6:#7d828a}
@media(prefers-color-scheme:dark){:root{--page:#121417;--card:#1b1e22;--ink:#eceef0;--soft:#a9afb6;--line:#343a41;--grid:#2a2f35;--accent:#3987e5;
--good:#5fcf8d;--warn:#f0b35a;--bad:#ff8a80;--s0:#3987e5;--s1:#d95926;--s2:#199e70;--s3:#9085e9;--s4:#c98500;--s5:#d55181;--s6:#7f868e}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1180px;margin:0 auto;padding:20px 16px 48px}
h1{font-size:1.6rem;line-height:1.2;margin:0 0 4px}
h2{font-size:1.1rem;margin:0 0 4px}
p{margin:0 0 8px;color:var(--soft);max-width:80ch;overflow-wrap:anywhere}
.demo{background:var(--warn);color:var(--card);padding:8px 12px;border-radius:6px;font-weight:600;max-width:none;margin:0 0 14px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(158px,1fr));gap:10px;margin:16px 0}
.tiles div,section{background:var(--card);border:1px solid var(--line);border-radius:8px}
.tiles div{padding:10px 12px}
.tiles span{display:block;color:var(--soft);font-size:.85rem}
.tiles b{font-size:1.3rem;font-weight:600;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
section{padding:14px;margin:0 0 14px;min-width:0}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:10px 24px}
@media(max-width:800px){.pair{grid-template-columns:1fr}}
.legend{list-style:none;margin:0 0 10px;padding:0;display:flex;flex-wrap:wrap;gap:2px 16px}
.legend li{display:flex;align-items:center;gap:6px;overflow-wrap:anywhere;min-width:0}
.legend i,.tip i{display:inline-block;flex:none;width:11px;height:11px;border-radius:2px}
.chart{margin:8px 0;min-width:0}
figcaption{font-weight:600;margin-bottom:6px}
.plot{display:grid;grid-template-columns:auto minmax(0,1fr);grid-template-rows:200px auto;column-gap:8px}
.plot svg{width:100%;height:200px;display:block;overflow:visible}
.y{display:flex;flex-direction:column;justify-content:space-between;text-align:right;color:var(--soft);font-size:.78rem;font-variant-numeric:tabular-nums;margin:-.6em 0}
.x{grid-column:2;display:flex;color:var(--soft);font-size:.78rem;border-top:1px solid var(--soft);padding-top:2px}
.x span{flex:1 1 0;min-width:0;text-align:center;white-space:nowrap}
.x b{display:block;font-weight:400}
.grid{stroke:var(--grid);stroke-width:1;vector-effect:non-scaling-stroke;fill:none}
.hit{fill:transparent}
g:hover .hit,g.on .hit{fill:var(--grid)}
svg rect:not(.hit){stroke:var(--card);stroke-width:1;vector-effect:non-scaling-stroke}
${[0, 1, 2, 3, 4, 5, 6].map((n) => `.s${n}{fill:var(--s${n});background:var(--s${n})}`).join("")}
@media(max-width:480px){.tiles b{font-size:1.1rem}}
.daily .x span{visibility:hidden}.daily .x span:nth-child(5n),.daily .x span:first-child{visibility:visible}
label{display:inline-flex;gap:8px;align-items:center;margin:2px 0 6px}
select{font:inherit;padding:4px 8px;border:1px solid var(--line);border-radius:6px;background:var(--page);color:var(--ink)}
.scroll{overflow-x:auto;margin:6px -4px 0;padding:0 4px}
.scroll:focus-visible,summary:focus-visible,select:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:5px 10px 5px 0;text-align:left;white-space:nowrap;vertical-align:top;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:600;font-size:.85rem}
td.w{white-space:normal;overflow-wrap:anywhere;min-width:7em}
.n{text-align:right}
.share{position:relative;min-width:84px}
.share::before{content:"";position:absolute;left:0;bottom:3px;height:3px;width:calc(var(--p)*(100% - 10px));background:var(--accent);border-radius:2px}
.good{color:var(--good)}.warn{color:var(--warn)}.bad{color:var(--bad);font-weight:600}
summary{cursor:pointer;color:var(--soft);padding:4px 0}
.none{color:var(--soft)}
.tip{position:absolute;z-index:2;pointer-events:none;background:var(--card);color:var(--ink);border:1px solid var(--soft);border-radius:6px;padding:6px 9px;font-size:.85rem;max-width:min(320px,90vw);box-shadow:0 2px 8px #0004}
.tip div{display:flex;gap:6px;align-items:center}
.tip b{margin-left:auto;padding-left:12px;font-variant-numeric:tabular-nums}
[hidden]{display:none}
@media print{body{background:#fff}.tip{display:none}section{break-inside:avoid}}
`;
